//! The panels in the terminal.
//!
//! They draw the board's contents, in a thread of low priority. While they are shown they use the
//! whole terminal. So messages of the program are held back and printed afterwards. Whatever ends
//! the panels (a key, a signal, a panic, the end of the run), the terminal is restored.

mod draw;
mod heat;
mod scene;

use std::io::{self, Stderr};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ioecho_trace::Nanos;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use signal_hook::consts::{SIGINT, SIGQUIT};
use signal_hook::low_level::{emulate_default_handler, raise};

use crate::print::{hold_back, is_watched, let_out, tell};
use crate::run::live::view::View;
use scene::Scene;

/// How often to look for keys and for new intervals.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Whether this program has changed the terminal.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The thread that draws.
pub(crate) struct Panels {
    thread: Option<JoinHandle<()>>,
    end: Arc<AtomicBool>,
    /// Raised while the panels are shown. Then nothing else may write to the terminal.
    pub(crate) shown: Arc<AtomicBool>,
}

impl Panels {
    /// Starts the panels. Without a terminal it prints a message and returns `None`. `asked` is
    /// raised when somebody asks the run to end.
    pub(crate) fn start(
        view: Arc<View>,
        duration: Option<Nanos>,
        asked: Arc<AtomicBool>,
    ) -> Option<Self> {
        if !is_watched() {
            tell(
                "--live needs a terminal on standard error; the line of progress stands in for it",
            );
            return None;
        }
        let terminal = match take() {
            Ok(terminal) => terminal,
            Err(error) => {
                give_back();
                tell(&format!("--live cannot use this terminal: {error}"));
                return None;
            }
        };
        let (end, shown) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
        let (their_end, their_shown) = (Arc::clone(&end), Arc::clone(&shown));
        let (quit, gone) = quit_flags();
        let thread = thread::Builder::new().name("ioecho-panels".to_owned()).spawn(move || {
            let _ = ioecho_linux::thread::stand_back();
            let guard = Guard { shown: their_shown, gone };
            // An error of the terminal does not end the run.
            let left = watch(terminal, &view, duration, &[&their_end, &asked, &quit]);
            drop(guard);
            // SIGQUIT ends the process at once, as always. The journal keeps the results so far.
            if quit.load(Relaxed) {
                let _ = emulate_default_handler(SIGQUIT);
            }
            if let Ok(Left::Signal(signal)) = left {
                let _ = raise(signal);
            }
        });
        if thread.is_err() {
            give_back();
        }
        Some(Self { thread: Some(thread.ok()?), end, shown })
    }

    /// Ends the panels and restores the terminal.
    pub(crate) fn finish(&mut self) {
        self.end.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Panels {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Restores the terminal, even if the thread panics.
struct Guard {
    shown: Arc<AtomicBool>,
    gone: Arc<AtomicBool>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        give_back();
        self.shown.store(false, Relaxed);
        self.gone.store(true, Relaxed);
    }
}

/// Why the panels end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// The run has ended, or will end soon.
    Ended,
    /// The user pressed a key to close the panels. The run goes on.
    Detached,
    /// The user pressed a key that normally sends a signal. In the terminal's raw state the program
    /// has to send it itself.
    Signal(i32),
}

/// Two flags for SIGQUIT. The signal raises the first one while the panels are shown, so that the
/// terminal is restored before the process ends. The second one says that the panels are gone. Then
/// the signal ends the process directly.
fn quit_flags() -> (Arc<AtomicBool>, Arc<AtomicBool>) {
    let (quit, gone) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    // If this fails, the signal still ends the process, but does not restore the terminal.
    let _ = signal_hook::flag::register_conditional_default(SIGQUIT, Arc::clone(&gone));
    let _ = signal_hook::flag::register(SIGQUIT, Arc::clone(&quit));
    (quit, gone)
}

fn take() -> io::Result<Terminal<CrosstermBackend<Stderr>>> {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        // The terminal is restored first, so that the message of the panic stays visible.
        give_back();
        before(panic);
    }));
    hold_back();
    TAKEN.store(true, Relaxed);
    enable_raw_mode()?;
    execute!(io::stderr(), EnterAlternateScreen, Hide)?;
    let mut terminal = Terminal::new(CrosstermBackend::new(io::stderr()))?;
    terminal.clear()?;
    Ok(terminal)
}

/// Restores the terminal, once.
fn give_back() {
    if TAKEN.swap(false, Relaxed) {
        let _ = execute!(io::stderr(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
        let_out();
    }
}

fn watch(
    mut terminal: Terminal<CrosstermBackend<Stderr>>,
    view: &View,
    duration: Option<Nanos>,
    ends: &[&AtomicBool],
) -> io::Result<Left> {
    let mut drawn = None;
    let mut scene = Scene::default();
    // A panic in another thread restores the terminal, too.
    while TAKEN.load(Relaxed) && !ends.iter().any(|end| end.load(Relaxed)) {
        let number = view.board.look().last.number;
        let is_new = drawn != Some(number);
        if is_new {
            scene = Scene::of(view, duration);
            drawn = Some(number);
        }
        let mut is_resized = false;
        if event::poll(LOOK_EVERY)? {
            match event::read()? {
                Event::Key(key) => match meaning(key) {
                    Some(left) => return Ok(left),
                    None => continue,
                },
                Event::Resize(..) => is_resized = true,
                _ => {}
            }
        }
        if is_new || is_resized {
            terminal.draw(|frame| draw::draw(frame, &scene))?;
        }
    }
    Ok(Left::Ended)
}

/// The action of a key.
fn meaning(key: KeyEvent) -> Option<Left> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
            Some(Left::Signal(SIGINT))
        }
        // Terminals send the same code for both.
        KeyCode::Char('\\' | '4') if key.modifiers.contains(KeyModifiers::CONTROL) => {
            Some(Left::Signal(SIGQUIT))
        }
        KeyCode::Char('q' | 'Q') | KeyCode::Esc => Some(Left::Detached),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_takes_the_panels_away_and_keys_that_send_signals_are_what_they_always_were() {
        let plain = |c| meaning(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
        assert_eq!((plain('q'), plain('x'), plain('c')), (Some(Left::Detached), None, None));
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(meaning(interrupt), Some(Left::Signal(SIGINT)));
        let quit = KeyEvent::new(KeyCode::Char('4'), KeyModifiers::CONTROL);
        assert_eq!(meaning(quit), Some(Left::Signal(SIGQUIT)));
    }
}
