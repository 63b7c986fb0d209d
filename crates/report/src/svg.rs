//! A plot as SVG text: axes, lines, density, legend.
//!
//! SVG text that is the same for the same run can be compared, kept in tests and reviewed, and any
//! browser shows it. So every number is written with one decimal, and nothing depends on the fonts
//! of a machine: the font list ends with the generic `sans-serif`.

use std::fmt::Write as _;

use ioecho_trace::visible::is_harmless;

use crate::scale::Mark;

/// The default size of a figure in units of its `viewBox`.
pub(crate) const SIZE: (f64, f64) = (1000.0, 500.0);

const LEFT: f64 = 86.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 74.0;
const BOTTOM: f64 = 56.0;

/// The texts around a plot.
pub(crate) struct Heading<'a> {
    /// The title of the drawing.
    pub(crate) what: &'a str,
    /// The name of the run.
    pub(crate) run: &'a str,
    /// The verdict in a word, and its colour.
    pub(crate) verdict: (&'a str, &'a str),
    /// The texts in the lower corners: a warning, and how the load was fitted to the target.
    pub(crate) foot: (&'a str, &'a str),
    /// Width and height.
    pub(crate) size: (f64, f64),
}

/// A line of a plot.
pub(crate) struct Line<'a> {
    pub(crate) name: &'a str,
    pub(crate) colour: &'a str,
    pub(crate) dash: &'a str,
    /// Places as shares of the plot, 0 to 1 from left to right and from bottom to top. `None`
    /// interrupts the line.
    pub(crate) points: Vec<Option<(f64, f64)>>,
}

/// A plot that is being drawn.
pub(crate) struct Plot {
    text: String,
    /// The place and the row of the legend's next name.
    legend: f64,
    row: u32,
    size: (f64, f64),
}

impl Plot {
    /// A white sheet with its headings and an empty frame.
    pub(crate) fn new(heading: &Heading<'_>) -> Self {
        let mut plot = Self { text: String::new(), legend: LEFT, row: 0, size: heading.size };
        let run = escaped(&shortened(heading.run, 90));
        let (verdict, colour) = heading.verdict;
        let what = escaped(heading.what);
        let (wide, tall) = heading.size;
        plot.put(&format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {tall}\" \
             width=\"{wide}\" height=\"{tall}\" font-size=\"13\" \
             font-family=\"'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif\">\n\
             <title>{what}: {run}</title>\n\
             <rect width=\"{wide}\" height=\"{tall}\" fill=\"#ffffff\"/>\n\
             <text x=\"{LEFT}\" y=\"26\" font-size=\"17\" fill=\"#1b1f24\">{what}</text>\n\
             <text x=\"{LEFT}\" y=\"44\" font-size=\"12\" fill=\"#5c6670\">{run}</text>\n\
             <text x=\"{x}\" y=\"26\" text-anchor=\"end\" font-size=\"15\" fill=\"{colour}\">\
             {verdict}</text>\n",
            x = wide - RIGHT,
        ));
        let (left, right) = heading.foot;
        for (text, x, anchor) in [(left, 8.0, "start"), (right, wide - 8.0, "end")] {
            if !text.is_empty() {
                plot.put(&format!(
                    "<text x=\"{x}\" y=\"{:.1}\" text-anchor=\"{anchor}\" font-size=\"11\" \
                     fill=\"#5c6670\">{}</text>\n",
                    tall - 6.0,
                    escaped(&shortened(text, 60)),
                ));
            }
        }
        plot
    }

    /// The width of the area inside the axes.
    fn plot_wide(&self) -> f64 {
        (self.size.0 - LEFT - RIGHT).max(1.0)
    }

    /// The height of the area inside the axes.
    pub(crate) fn plot_tall(&self) -> f64 {
        (self.size.1 - TOP - BOTTOM).max(1.0)
    }

    /// Marks along the lower edge; `share` returns how far along a value lies, 0 to 1.
    pub(crate) fn across(&mut self, marks: &[Mark], share: impl Fn(f64) -> f64, label: &str) {
        let bottom = TOP + self.plot_tall();
        for mark in marks {
            let x = LEFT + share(mark.at) * self.plot_wide();
            self.put(&format!(
                "<path d=\"M{x:.1} {TOP}V{y:.1}\" stroke=\"#eceff2\"/>\
                 <text x=\"{x:.1}\" y=\"{t:.1}\" text-anchor=\"middle\" \
                 fill=\"#5c6670\">{}</text>\n",
                mark.label,
                y = bottom + 4.0,
                t = bottom + 20.0,
            ));
        }
        self.put(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
             fill=\"#1b1f24\">{}</text>\n",
            LEFT + self.plot_wide() / 2.0,
            bottom + 42.0,
            escaped(label),
        ));
    }

    /// Marks along the left edge; `share` returns how far up a value lies, 0 to 1.
    pub(crate) fn upward(&mut self, marks: &[Mark], share: impl Fn(f64) -> f64, label: &str) {
        for mark in marks {
            let y = TOP + (1.0 - share(mark.at)) * self.plot_tall();
            self.put(&format!(
                "<path d=\"M{x:.1} {y:.1}H{end:.1}\" stroke=\"#dfe3e8\"/>\
                 <text x=\"{t:.1}\" y=\"{base:.1}\" text-anchor=\"end\" \
                 fill=\"#5c6670\">{}</text>\n",
                mark.label,
                x = LEFT - 4.0,
                end = LEFT + self.plot_wide(),
                t = LEFT - 8.0,
                base = y + 4.5,
            ));
        }
        let middle = TOP + self.plot_tall() / 2.0;
        self.put(&format!(
            "<text transform=\"translate(20 {middle:.1}) rotate(-90)\" text-anchor=\"middle\" \
             fill=\"#1b1f24\">{}</text>\n",
            escaped(label),
        ));
    }

    /// A name in the legend; an empty one is left out.
    pub(crate) fn name(&mut self, name: &str, colour: &str, dash: &str) {
        if name.is_empty() {
            return;
        }
        let name = shortened(name, 60);
        // Letters are about 6.2 units wide in any sans-serif of 12 units; the text is not measured.
        let wide = 44.0 + 6.2 * name.chars().count() as f64;
        if self.legend > LEFT && self.legend + wide - 20.0 > self.size.0 - RIGHT {
            self.row += 1;
            self.legend = LEFT;
        }
        let (x, y, size) = match self.row {
            0 => (self.legend, 60.0, 12),
            1 => (self.legend, 69.5, 11),
            // The legend has two rows; a sign for left-out names appears once.
            2 => return self.more(),
            _ => return,
        };
        let shown = escaped(&name);
        self.put(&format!(
            "<path d=\"M{x:.1} {y}h18\" stroke=\"{colour}\" stroke-width=\"4\"{}/>\
             <text x=\"{:.1}\" y=\"{}\" font-size=\"{size}\" fill=\"#1b1f24\">{shown}</text>\n",
            dashed(dash),
            x + 24.0,
            y + 4.5,
        ));
        self.legend += wide;
    }

    /// Shows that the legend has more names.
    fn more(&mut self) {
        self.row += 1;
        let x = self.size.0 - 4.0;
        self.put(&format!(
            "<text x=\"{x:.1}\" y=\"74\" text-anchor=\"end\" font-size=\"11\" \
             fill=\"#1b1f24\">…</text>\n"
        ));
    }

    /// A line and its name in the legend.
    pub(crate) fn line(&mut self, line: &Line<'_>) {
        self.name(line.name, line.colour, line.dash);
        let mut path = String::new();
        let mut drawing = false;
        for point in &line.points {
            let Some((x, y)) = point else {
                drawing = false;
                continue;
            };
            let x = LEFT + x * self.plot_wide();
            let y = TOP + (1.0 - y.clamp(0.0, 1.0)) * self.plot_tall();
            let letter = if drawing { 'L' } else { 'M' };
            let _ = write!(path, "{letter}{x:.1} {y:.1}");
            drawing = true;
        }
        if !path.is_empty() {
            self.put(&format!(
                "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" \
                 stroke-linejoin=\"round\" stroke-linecap=\"round\"{}/>\n",
                line.colour,
                dashed(line.dash),
            ));
        }
    }

    /// Boxes in one colour, each as shares of the plot: left, right, bottom and top.
    pub(crate) fn boxes(&mut self, boxes: &[(f64, f64, f64, f64)], colour: &str, opacity: f64) {
        let mut path = String::new();
        for (left, right, low, high) in boxes {
            // A single request on an empty sheet must be visible.
            let wide = ((right - left) * self.plot_wide()).max(1.5);
            let tall = ((high - low) * self.plot_tall()).max(1.5);
            let x = (LEFT + left * self.plot_wide()).min(LEFT + self.plot_wide() - wide);
            let y = (TOP + (1.0 - high) * self.plot_tall()).min(TOP + self.plot_tall() - tall);
            let _ = write!(path, "M{x:.1} {y:.1}h{wide:.1}v{tall:.1}h-{wide:.1}z");
        }
        if !path.is_empty() {
            self.put(&format!(
                "<path d=\"{path}\" fill=\"{colour}\" fill-opacity=\"{opacity:.2}\"/>\n"
            ));
        }
    }

    /// A line across the plot at a share of its height, or of its width, with a label at its end.
    pub(crate) fn limit(&mut self, along: bool, at: f64, label: &str) {
        let (x, y) = (LEFT + at * self.plot_wide(), TOP + (1.0 - at) * self.plot_tall());
        let label = escaped(label);
        self.put(&if along {
            format!(
                "<path d=\"M{x:.1} {TOP}v{:.1}\" stroke=\"#a1121f\" stroke-dasharray=\"2 3\"/>\
                 <text transform=\"translate({:.1} {:.1}) rotate(-90)\" font-size=\"11\" \
                 fill=\"#a1121f\">{label}</text>\n",
                self.plot_tall(),
                x - 4.0,
                TOP + self.plot_tall() - 6.0,
            )
        } else {
            format!(
                "<path d=\"M{LEFT} {y:.1}h{:.1}\" stroke=\"#a1121f\" stroke-dasharray=\"2 3\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" font-size=\"11\" \
                 fill=\"#a1121f\">{label}</text>\n",
                self.plot_wide(),
                LEFT + self.plot_wide() - 4.0,
                y - 4.0,
            )
        });
    }

    /// A text in the middle of the frame.
    pub(crate) fn word(&mut self, word: &str) {
        self.put(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"16\" \
             fill=\"#5c6670\">{word}</text>\n",
            LEFT + self.plot_wide() / 2.0,
            TOP + self.plot_tall() / 2.0,
        ));
    }

    /// The finished text. `stamp` is written across the plot, as blkreplay does with invalid
    /// results.
    pub(crate) fn finish(mut self, stamp: Option<&str>) -> String {
        self.put(&format!(
            "<rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{}\" height=\"{}\" \
             fill=\"none\" stroke=\"#9aa5b1\"/>\n",
            self.plot_wide(),
            self.plot_tall(),
        ));
        if let Some(stamp) = stamp {
            self.put(&format!(
                "<text transform=\"translate({:.1} {:.1}) rotate(-22)\" text-anchor=\"middle\" \
                 font-size=\"92\" fill=\"#a1121f\" fill-opacity=\"0.16\">{stamp}</text>\n",
                LEFT + self.plot_wide() / 2.0,
                TOP + self.plot_tall() / 2.0 + 30.0,
            ));
        }
        self.put("</svg>\n");
        self.text
    }

    fn put(&mut self, text: &str) {
        self.text.push_str(text);
    }
}

fn dashed(dash: &str) -> String {
    if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") }
}

/// The first characters of a text, with a sign if it was shortened.
fn shortened(text: &str, most: usize) -> String {
    let mut short: String = text.chars().take(most).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// A text for XML: markup is escaped; invisible characters, and those that XML 1.0 cannot
/// represent, are replaced.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\n' | '\t' | '\r' => safe.push(' '),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            c if is_harmless(c) => safe.push(c),
            _ => safe.push('\u{fffd}'),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_run_are_no_markup() {
        assert_eq!(
            escaped("<a b=\"c\">&\n\0\u{202e}"),
            "&lt;a b=&quot;c&quot;&gt;&amp; \u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn long_names_are_cut_between_letters() {
        assert_eq!(shortened("grün und blau", 3), "grü…");
        assert_eq!(shortened("grün", 4), "grün");
    }

    #[test]
    fn a_legend_that_is_too_long_goes_on_in_a_second_row_and_never_beyond_the_edge() {
        let heading = Heading { what: "", run: "", verdict: ("", ""), foot: ("", ""), size: SIZE };
        let mut plot = Plot::new(&heading);
        for number in 0..20 {
            plot.name(&format!("a volume with number {number}"), "#000000", "");
        }
        let names = plot.text.lines().filter(|line| line.contains("a volume"));
        let places = names.map(|line| {
            let x = line.split("<text x=\"").nth(1).and_then(|x| x.split('"').next());
            (x.and_then(|x| x.parse::<f64>().ok()).unwrap_or(f64::MAX), line.contains("69.5h18"))
        });
        let places: Vec<(f64, bool)> = places.collect();
        assert!(places.iter().all(|(x, _)| x + 6.2 * 23.0 <= SIZE.0), "{places:?}");
        assert!(places.iter().any(|(_, is_second)| *is_second) && plot.text.contains('…'));
    }
}
