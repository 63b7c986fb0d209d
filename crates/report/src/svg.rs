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
/// The top of the frame below a legend of one row, and what each further row takes.
const TOP: f64 = 74.0;
const ROW: f64 = 15.0;
const BOTTOM: f64 = 56.0;

/// The most letters of a name in the legend.
const NAME_MAX: usize = 60;

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
    /// The names of the legend, in the order in which they will be written.
    pub(crate) names: Vec<&'a str>,
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
    legend: Legend,
    /// The top of the frame.
    top: f64,
    size: (f64, f64),
}

/// The place of the legend's next name.
#[derive(Clone)]
struct Legend {
    x: f64,
    row: u32,
    /// How far to the right names may reach.
    right: f64,
    /// The most rows; half of the sheet is left to the figures.
    rows: u32,
}

impl Legend {
    fn new((wide, tall): (f64, f64)) -> Self {
        let further = ((tall / 2.0 - TOP) / ROW).max(0.0) as u32;
        Self { x: LEFT, row: 0, right: wide - RIGHT, rows: 1 + further }
    }

    /// The place and the row of a name of this length, which takes them.
    fn take(&mut self, letters: usize) -> (f64, u32) {
        // Letters are about 6.2 units wide in any sans-serif of 12 units; the text is not measured.
        let wide = 44.0 + 6.2 * letters as f64;
        if self.x > LEFT && self.x + wide - 20.0 > self.right {
            self.row += 1;
            self.x = LEFT;
        }
        let x = self.x;
        self.x += wide;
        (x, self.row)
    }

    /// The number of rows that these names take.
    fn rows_of(&self, names: &[&str]) -> u32 {
        let mut legend = self.clone();
        for name in names.iter().filter(|name| !name.is_empty()) {
            legend.take(shortened(name, NAME_MAX).chars().count());
        }
        (legend.row + 1).min(self.rows)
    }
}

impl Plot {
    /// A white sheet with its headings and an empty frame.
    pub(crate) fn new(heading: &Heading<'_>) -> Self {
        let (wide, tall) = heading.size;
        let legend = Legend::new(heading.size);
        let top = TOP + ROW * f64::from(legend.rows_of(&heading.names) - 1);
        let mut plot = Self { text: String::new(), legend, top, size: heading.size };
        let run = escaped(&shortened(heading.run, 90));
        let (verdict, colour) = heading.verdict;
        let what = escaped(heading.what);
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
        (self.size.1 - self.top - BOTTOM).max(1.0)
    }

    /// Marks along the lower edge; `share` returns how far along a value lies, 0 to 1.
    pub(crate) fn across(&mut self, marks: &[Mark], share: impl Fn(f64) -> f64, label: &str) {
        let bottom = self.top + self.plot_tall();
        for mark in marks {
            let x = LEFT + share(mark.at) * self.plot_wide();
            self.put(&format!(
                "<path d=\"M{x:.1} {}V{y:.1}\" stroke=\"#eceff2\"/>\
                 <text x=\"{x:.1}\" y=\"{t:.1}\" text-anchor=\"middle\" \
                 fill=\"#5c6670\">{}</text>\n",
                self.top,
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
            let y = self.top + (1.0 - share(mark.at)) * self.plot_tall();
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
        let middle = self.top + self.plot_tall() / 2.0;
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
        let name = shortened(name, NAME_MAX);
        let (x, row) = self.legend.take(name.chars().count());
        if row >= self.legend.rows {
            if row == self.legend.rows && x <= LEFT {
                self.more();
            }
            return;
        }
        let y = 60.0 + ROW * f64::from(row);
        let shown = escaped(&name);
        self.put(&format!(
            "<path d=\"M{x:.1} {y}h18\" stroke=\"{colour}\" stroke-width=\"4\"{}/>\
             <text x=\"{:.1}\" y=\"{}\" font-size=\"12\" fill=\"#1b1f24\">{shown}</text>\n",
            dashed(dash),
            x + 24.0,
            y + 4.5,
        ));
    }

    /// Shows that the legend has more names.
    fn more(&mut self) {
        let (x, y) = (self.size.0 - 4.0, self.top);
        self.put(&format!(
            "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"end\" font-size=\"11\" \
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
            let y = self.top + (1.0 - y.clamp(0.0, 1.0)) * self.plot_tall();
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
            let y = (self.top + (1.0 - high) * self.plot_tall())
                .min(self.top + self.plot_tall() - tall);
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
        let (x, y) = (LEFT + at * self.plot_wide(), self.top + (1.0 - at) * self.plot_tall());
        let label = escaped(label);
        self.put(&if along {
            format!(
                "<path d=\"M{x:.1} {}v{:.1}\" stroke=\"#a1121f\" stroke-dasharray=\"2 3\"/>\
                 <text transform=\"translate({:.1} {:.1}) rotate(-90)\" font-size=\"11\" \
                 fill=\"#a1121f\">{label}</text>\n",
                self.top,
                self.plot_tall(),
                x - 4.0,
                self.top + self.plot_tall() - 6.0,
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
            self.top + self.plot_tall() / 2.0,
        ));
    }

    /// The finished text. `stamp` is written across the plot, as blkreplay does with invalid
    /// results.
    pub(crate) fn finish(mut self, stamp: Option<&str>) -> String {
        self.put(&format!(
            "<rect x=\"{LEFT}\" y=\"{}\" width=\"{}\" height=\"{}\" \
             fill=\"none\" stroke=\"#9aa5b1\"/>\n",
            self.top,
            self.plot_wide(),
            self.plot_tall(),
        ));
        if let Some(stamp) = stamp {
            self.put(&format!(
                "<text transform=\"translate({:.1} {:.1}) rotate(-22)\" text-anchor=\"middle\" \
                 font-size=\"92\" fill=\"#a1121f\" fill-opacity=\"0.16\">{stamp}</text>\n",
                LEFT + self.plot_wide() / 2.0,
                self.top + self.plot_tall() / 2.0 + 30.0,
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
    fn a_legend_takes_the_rows_that_it_needs_but_never_more_than_half_of_the_sheet() {
        let names: Vec<_> = (100..200).map(|number| format!("a volume, {number}")).collect();
        for (count, tall, is_cut) in [(3, 500.0, false), (40, 500.0, false), (100, 300.0, true)] {
            let names: Vec<_> = names.iter().take(count).map(String::as_str).collect();
            let (size, none) = ((SIZE.0, tall), ("", ""));
            let heading = Heading { what: "", run: "", verdict: none, foot: none, size, names };
            let mut plot = Plot::new(&heading);
            heading.names.iter().for_each(|name| plot.name(name, "#000000", ""));
            let shown = plot.text.lines().filter(|line| line.contains("a volume"));
            let place = |line: &str, before: &str| {
                let number = line.split(before).nth(1).unwrap().split(['"', ' ', 'h']).next();
                number.unwrap().parse::<f64>().unwrap()
            };
            let places: Vec<_> =
                shown.map(|line| (place(line, "<text x=\""), place(line, "\" y=\""))).collect();
            assert!(places.iter().all(|(x, _)| x + 6.2 * 13.0 <= SIZE.0 - RIGHT), "{places:?}");
            let lowest = places.iter().map(|(_, y)| *y).fold(0.0, f64::max);
            assert!(lowest < plot.top && plot.top <= (tall / 2.0).max(TOP), "{places:?}");
            assert_eq!(plot.text.matches('…').count(), usize::from(is_cut));
            assert_eq!(places.len() < count, is_cut);
        }
    }
}
