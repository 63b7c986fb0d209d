//! Figures as pixels, the same on a machine without any fonts.
//!
//! A renderer that looks for fonts on the machine draws other letters on each, and none in a
//! container. So the text is drawn with fonts that are part of this program: Ubuntu Light, the
//! `sans-serif` that every font list of our figures ends with, and Hack for letters that it lacks,
//! such as the arrow between trace and target.

use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb::Database};

use crate::ReportError;

static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    fonts.load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
    let family = fonts.faces().next().and_then(|face| face.families.first());
    if let Some((name, _)) = family.cloned() {
        fonts.set_sans_serif_family(name);
    }
    fonts.load_font_data(epaint_default_fonts::HACK_REGULAR.to_vec());
    Arc::new(fonts)
});

/// A figure as PNG, `scale` pixels per unit of the SVG.
pub fn png(svg: &str, scale: f32) -> Result<Vec<u8>, ReportError> {
    let failed = |reason: &dyn std::fmt::Display| ReportError::Pixels(reason.to_string());
    let options = Options { fontdb: Arc::clone(&FONTS), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|error| failed(&error))?;
    let size = tree
        .size()
        .to_int_size()
        .scale_by(scale)
        .ok_or_else(|| failed(&format_args!("a scale of {scale} leaves no pixels")))?;
    let mut pixels = Pixmap::new(size.width(), size.height())
        .ok_or_else(|| failed(&"there is no memory for so many pixels"))?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arrow_of_a_title_is_drawn_and_not_as_a_box() {
        let drawn = |text: &str| {
            let svg = format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"40\" height=\"40\">\
                 <text x=\"5\" y=\"30\" font-size=\"24\" font-family=\"sans-serif\">{text}</text>\
                 </svg>"
            );
            png(&svg, 1.0).unwrap()
        };
        // No font has a letter for what is no character: that is the box.
        assert_ne!(drawn("→"), drawn("\u{fdd0}"));
        assert_ne!(drawn("→"), drawn(" "));
    }
}
