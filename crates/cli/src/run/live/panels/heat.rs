//! The sonar diagram in characters. Time goes to the right and the logarithm of service time
//! upwards. The number of requests is shown as shade and colour. The newest interval is at the
//! right edge.

use ioecho_stats::raster::{ROWS, ROWS_PER_DECADE, edge};
use ioecho_trace::Nanos;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};

use crate::run::live::board::Glance;

/// Shades from few requests to many, legible without colours.
const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];

/// The same as colours from dark blue to yellow, which colour-blind people can distinguish, too
/// (after Matplotlib's viridis).
const COLOURS: [u8; 5] = [60, 66, 35, 113, 226];

/// The width of the scale at the left, in characters.
const SCALE: u16 = 7;

/// The rows of the raster that are drawn: the whole decades that hold requests.
fn range(columns: &[Glance]) -> Option<(usize, usize)> {
    let mut used = columns.iter().filter_map(|glance| {
        let rows = glance.sonar.rows()?;
        let low = rows.iter().position(|count| *count > 0)?;
        let high = rows.iter().rposition(|count| *count > 0)?;
        Some((low, high))
    });
    let first = used.next()?;
    let (low, high) = used.fold(first, |all, one| (all.0.min(one.0), all.1.max(one.1)));
    let decade = ROWS_PER_DECADE;
    Some((low / decade * decade, ((high / decade + 1) * decade).min(ROWS)))
}

/// Draws the newest columns that fit.
pub(crate) fn draw(columns: &[Glance], is_colourless: bool, area: Rect, buffer: &mut Buffer) {
    let Some(width) = area.width.checked_sub(SCALE).filter(|width| *width > 0) else { return };
    if area.height == 0 {
        return;
    }
    let columns = &columns[columns.len().saturating_sub(usize::from(width))..];
    let Some((low, high)) = range(columns) else {
        buffer.set_stringn(
            area.x,
            area.y,
            "no request has completed yet",
            usize::from(area.width),
            Style::new(),
        );
        return;
    };
    let lines = usize::from(area.height);
    // Line 0 is the lowest. Each line covers several rows.
    let line_of = |row: usize| (row - low) * lines / (high - low);
    let counts: Vec<Vec<u64>> = columns
        .iter()
        .map(|glance| {
            let mut line = vec![0_u64; lines];
            for (row, count) in glance.sonar.rows().into_iter().flatten().enumerate() {
                if (low..high).contains(&row) {
                    line[line_of(row)] += u64::from(*count);
                }
            }
            line
        })
        .collect();
    let most = counts.iter().flatten().copied().max().unwrap_or(1).max(1);
    let start = area.right() - columns.len() as u16;
    for (x, column) in counts.iter().enumerate() {
        for (line, count) in column.iter().enumerate().filter(|(_, count)| **count > 0) {
            let shade = shade(*count, most);
            let style = if is_colourless {
                Style::new()
            } else {
                Style::new().fg(Color::Indexed(COLOURS[shade]))
            };
            let (x, y) = (start + x as u16, area.bottom() - 1 - line as u16);
            if let Some(cell) = buffer.cell_mut((x, y)) {
                cell.set_char(SHADES[shade]).set_style(style);
            }
        }
    }
    // A label stands at the lower edge of each decade. If two labels fall on one line, only one is
    // drawn.
    let mut above = usize::MAX;
    for row in (low..high).step_by(ROWS_PER_DECADE) {
        let line = line_of(row);
        if line != above {
            let label = format!("{:>6}", label(edge(row)));
            let y = area.bottom() - 1 - line as u16;
            buffer.set_stringn(area.x, y, label, usize::from(SCALE), Style::new());
            above = line;
        }
    }
}

/// The shade of a count, by its logarithm. So one request among a million is still visible.
fn shade(count: u64, most: u64) -> usize {
    let share = (count as f64).ln_1p() / (most as f64).ln_1p();
    ((share * SHADES.len() as f64).ceil() as usize).clamp(1, SHADES.len()) - 1
}

fn label(ns: i64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", ns / 1_000),
        1_000_000..1_000_000_000 => format!("{} ms", ns / 1_000_000),
        _ => format!("{} s", Nanos(ns).as_secs_f64().round()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_is_seen_beside_a_million_and_the_most_are_solid() {
        assert_eq!((shade(1, 1_000_000), shade(1_000_000, 1_000_000)), (0, SHADES.len() - 1));
        assert_eq!(shade(1, 1), SHADES.len() - 1);
    }

    #[test]
    fn decades_are_named_in_their_units() {
        let labels = [100, 1_000, 100_000, 10_000_000, 1_000_000_000].map(label);
        assert_eq!(labels, ["100 ns", "1 µs", "100 µs", "10 ms", "1 s"]);
    }

    #[test]
    fn no_place_is_too_small() {
        let mut glance = Glance::default();
        glance.sonar.record(Nanos(1_000));
        glance.sonar.record(Nanos::from_secs(500));
        for (width, height) in [(0, 0), (1, 1), (7, 3), (8, 1), (200, 1), (9, 300)] {
            let area = Rect::new(0, 0, width, height);
            draw(&[glance.clone(), Glance::default()], false, area, &mut Buffer::empty(area));
            draw(&[], true, area, &mut Buffer::empty(area));
        }
    }
}
