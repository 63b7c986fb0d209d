//! The layout of the panels. If there is too little room, panels are left out. The verdict and the
//! figures are left out last.

use ioecho_stats::run_summary::Percentiles;
use ioecho_stats::verdict::{Grade, Validity};
use ioecho_trace::Nanos;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span as Words};
use ratatui::widgets::{Block, Borders, Paragraph, Sparkline, Wrap};

use super::heat;
use super::scene::{SPANS, Scene};
use crate::run::live::board::Glance;

/// The lines of the table: a heading, and a line for each span.
const TABLE: u16 = 5;

/// The lines of the verdict with its frame.
const VERDICT: u16 = 5;

/// The lines of a small diagram with its frame.
const SMALL: u16 = 5;

/// Draws all panels.
pub(crate) fn draw(frame: &mut Frame<'_>, scene: &Scene) {
    let [head, verdict, sonar, small, table] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(VERDICT),
        Constraint::Min(0),
        Constraint::Length(if frame.area().height >= 24 { SMALL } else { 0 }),
        Constraint::Length(TABLE),
    ])
    .areas(frame.area());
    heading(frame, scene, head);
    judgement(frame, scene, verdict);
    let block = framed("service time · each column an interval, the newest right");
    let inner = block.inner(sonar);
    frame.render_widget(block, sonar);
    heat::draw(&scene.recent, scene.is_colourless, inner, frame.buffer_mut());
    let [rates, flight, late] = Layout::horizontal([Constraint::Fill(1); 3]).areas(small);
    throughput(frame, scene, rates);
    let most = scene.recent.iter().map(|glance| glance.in_flight_max).max().unwrap_or(0);
    let now = scene.recent.last().map_or(0, |glance| glance.in_flight);
    let title = format!("in flight {now} · most {most}");
    bars(frame, &title, &scene.recent, flight, |glance| u64::from(glance.in_flight_max));
    let lateness = |glance: &Glance| glance.lateness_max.map_or(0, |latest| latest.0.max(0) as u64);
    let most = scene.recent.iter().map(lateness).max().unwrap_or(0);
    let title = format!("lateness · most {}", Nanos(most as i64));
    bars(frame, &title, &scene.recent, late, lateness);
    percentiles(frame, scene, table);
}

fn framed(title: &str) -> Block<'_> {
    Block::new().borders(Borders::TOP).title(format!(" {title} "))
}

fn heading(frame: &mut Frame<'_>, scene: &Scene, area: Rect) {
    let of = scene.duration.map_or(String::new(), |all| format!(" of {:.0} s", all.as_secs_f64()));
    let text = format!(
        "{:.0} s{of} · {} done, {} failed, {} late · q: leave, Ctrl-C: stop the run · {}",
        scene.elapsed.as_secs_f64(),
        scene.completed,
        scene.failed,
        scene.late,
        scene.title
    );
    frame.render_widget(Line::from(text), area);
}

fn judgement(frame: &mut Frame<'_>, scene: &Scene, area: Rect) {
    let (word, colour) = match scene.validity {
        None => ("NOTHING YET", Color::Reset),
        Some(Validity::Valid) => ("VALID", Color::Green),
        Some(Validity::Suspect) => ("SUSPECT", Color::Yellow),
        Some(Validity::Invalid) => ("INVALID", Color::Red),
    };
    let style = Style::new().add_modifier(Modifier::BOLD);
    let style = if scene.is_colourless { style } else { style.fg(colour) };
    let sentence = if scene.validity.is_some() { scene.sentence.as_str() } else { "" };
    let mut line = vec![Words::styled(format!("{word} so far. "), style), Words::raw(sentence)];
    for (grade, doubt) in &scene.doubts {
        let sign = if *grade == Grade::Limited { '◆' } else { '!' };
        line.push(Words::raw(format!(" {sign} {doubt}")));
    }
    let text = Paragraph::new(Line::from(line)).wrap(Wrap { trim: true });
    frame.render_widget(text.block(framed("verdict")), area);
}

/// Draws demanded and achieved rates, one above the other on one scale.
fn throughput(frame: &mut Frame<'_>, scene: &Scene, area: Rect) {
    let last = scene.recent.last();
    let demanded = last.and_then(|glance| glance.demanded_per_s);
    let told = demanded.map_or(String::new(), |rate| format!("due {rate:.0}/s, "));
    let title = format!("{told}done {:.0}/s", last.map_or(0.0, |glance| glance.completed_per_s));
    let block = framed(&title);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [above, below] = Layout::vertical([Constraint::Fill(1); 2]).areas(inner);
    let done = |glance: &Glance| glance.completed_per_s as u64;
    let due = |glance: &Glance| glance.demanded_per_s.unwrap_or(0.0) as u64;
    let most = scene.recent.iter().map(|glance| done(glance).max(due(glance))).max();
    let most = most.unwrap_or(0).max(1);
    let data = newest(&scene.recent, above);
    let (due, done): (Vec<u64>, Vec<u64>) =
        data.iter().map(|glance| (due(glance), done(glance))).unzip();
    let dim = Style::new().add_modifier(Modifier::DIM);
    frame.render_widget(Sparkline::default().data(due).max(most).style(dim), above);
    frame.render_widget(Sparkline::default().data(done).max(most), below);
}

/// Draws a small diagram of one figure.
fn bars(
    frame: &mut Frame<'_>,
    title: &str,
    recent: &[Glance],
    area: Rect,
    of: impl Fn(&Glance) -> u64,
) {
    let block = framed(title);
    let inner = block.inner(area);
    let data: Vec<u64> = newest(recent, inner).iter().map(of).collect();
    frame.render_widget(Sparkline::default().data(data).block(block), area);
}

/// The newest values, one for each column.
fn newest(recent: &[Glance], area: Rect) -> &[Glance] {
    &recent[recent.len().saturating_sub(usize::from(area.width))..]
}

fn percentiles(frame: &mut Frame<'_>, scene: &Scene, area: Rect) {
    let shown = |of: &Option<Percentiles>| {
        let Some(of) = of else { return ["-"; 4].map(str::to_owned) };
        [Some(of.p50_ns), of.p99_ns, of.p99_9_ns, Some(of.max_ns)]
            .map(|ns| ns.map_or("-".to_owned(), |ns| Nanos(ns as i64).to_string()))
    };
    let row = |name: &str, now: [String; 4], whole: [String; 4]| {
        let cells = now.into_iter().chain(whole).map(|cell| format!("{cell:>9}"));
        Line::from(format!("{name:<14}{}", cells.collect::<String>()))
    };
    let names = ["p50", "p99", "p99.9", "max"].map(str::to_owned);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut lines = vec![row("", names.clone(), names).style(bold)];
    for (number, span) in SPANS.into_iter().enumerate() {
        lines.push(row(span.name(), shown(&scene.now[number]), shown(&scene.whole[number])));
    }
    let title = format!("{:<13}{:<36}{}", "", "in the last interval", "in the whole run");
    frame.render_widget(Paragraph::new(lines).block(framed(title.trim_end())), area);
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "recount_tests.rs"]
mod recount;
