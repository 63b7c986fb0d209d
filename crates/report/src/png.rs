//! Figures as pixels, the same on a machine without any fonts.
//!
//! A renderer that uses the machine's fonts draws different letters on each machine, and none in a
//! container. So the text is drawn with fonts that are part of this program: Ubuntu Light, the
//! `sans-serif` at the end of every font list of our figures, and Hack for characters that it
//! lacks, such as the arrow between trace and target.

use std::sync::{Arc, LazyLock};

use png::{BitDepth, ColorType, DeflateCompression, EncodingError, Filter};
use resvg::tiny_skia::{Pixmap, PremultipliedColorU8, Transform};
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
    encode(&pixels).map_err(|error| failed(&error))
}

/// The compression level of the pixels. For the 43 pictures of a real run on a busy processor: the
/// library's defaults (filtered, with transparency) 3.2 MB in 2.1 s, this level 2.9 MB in 0.5 s,
/// its fastest level 4.6 MB in 0.1 s.
const LEVEL: u8 = 4;

/// Encodes the pixels as a file. The pictures are flat colour, which compresses worse with a
/// filter.
fn encode(pixels: &Pixmap) -> Result<Vec<u8>, EncodingError> {
    let all = pixels.pixels();
    let is_opaque = all.iter().all(PremultipliedColorU8::is_opaque);
    let bytes = if is_opaque {
        all.iter().flat_map(|pixel| [pixel.red(), pixel.green(), pixel.blue()]).collect()
    } else {
        let plain = all.iter().map(PremultipliedColorU8::demultiply);
        plain.flat_map(|of| [of.red(), of.green(), of.blue(), of.alpha()]).collect::<Vec<u8>>()
    };
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, pixels.width(), pixels.height());
    encoder.set_color(if is_opaque { ColorType::Rgb } else { ColorType::Rgba });
    encoder.set_depth(BitDepth::Eight);
    encoder.set_deflate_compression(DeflateCompression::Level(LEVEL));
    encoder.set_filter(Filter::NoFilter);
    encoder.write_header()?.write_image_data(&bytes)?;
    Ok(file)
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
        // U+FDD0 is not a character, so no font has a glyph for it and the box is drawn.
        assert_ne!(drawn("→"), drawn("\u{fdd0}"));
        assert_ne!(drawn("→"), drawn(" "));
    }

    /// The pixels of a file, and whether they have an alpha channel.
    fn decoded(file: &[u8]) -> (Vec<u8>, bool) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        (bytes, info.color_type == ColorType::Rgba)
    }

    #[test]
    fn colours_are_kept_and_transparency_where_there_is_some() {
        let drawn = |shape: &str| {
            let svg = format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"2\" height=\"1\">{shape}</svg>"
            );
            decoded(&png(&svg, 1.0).unwrap())
        };
        let left = "<rect width=\"1\" height=\"1\" fill=\"#102030\"/>";
        assert_eq!(drawn(left), (vec![16, 32, 48, 255, 0, 0, 0, 0], true));
        let both = format!("<rect width=\"2\" height=\"1\" fill=\"#fff\"/>{left}");
        assert_eq!(drawn(&both), (vec![16, 32, 48, 255, 255, 255], false));
    }
}
