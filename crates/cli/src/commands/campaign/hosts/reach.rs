//! The way to a host: the command that runs an agent there, and the program that it needs.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use ioecho_campaign::file::Host;
use rustix::process::{Pid, Signal, kill_process_group};

use super::build;

/// What a shell ends with if there is no such program, or it cannot be run.
pub(super) const NO_PROGRAM: [i32; 2] = [126, 127];

/// How much of what a host says to an error is kept, in bytes.
const SAID_MAX: u64 = 4096;

/// How long a host may take for the program: a slow link needs minutes, and one that does not read
/// is not waited for.
const SENDS_WITHIN: Duration = Duration::from_mins(10);

/// How long it is waited for the last words of a command that has ended.
const SAID_WITHIN: Duration = Duration::from_secs(5);

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How an agent is to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum As {
    /// To converse.
    Agent,
    /// To take loads.
    Taker,
    /// To give results.
    Giver,
}

impl As {
    const fn flag(self) -> &'static str {
        match self {
            Self::Agent => "",
            Self::Taker => " --take",
            Self::Giver => " --give",
        }
    }
}

/// The command that starts an agent on a host.
pub(super) fn agent(host: &Host, as_: As, build: &str) -> io::Result<Command> {
    if host.launch.is_empty() {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("agent").args(as_.flag().split_whitespace());
        if let Some(directory) = &host.directory {
            command.args(["--directory", directory]);
        }
        return Ok(command);
    }
    let flag = as_.flag();
    let script = format!(
        "{}; p=\"$d/bin/{build}/ioecho\"; [ -x \"$p\" ] || exit 127; exec \"$p\" agent{flag} \
         --directory \"$d\"",
        directory(host)
    );
    Ok(through(host, &script))
}

/// Sends this program to a host, unless somebody has `asked` for the end.
///
/// # Errors
///
/// In words, if it is not there afterwards.
pub(super) fn send(host: &Host, build: &str, asked: &dyn Fn() -> bool) -> Result<(), String> {
    let whole = build::whole().map_err(|error| error.to_string())?;
    // The name becomes that of a program only when all of it has arrived.
    let script = format!(
        "{}; umask 077; b=\"$d/bin/{build}\"; t=\"$b/.ioecho.$$\"; mkdir -p \"$b\" && cat > \"$t\" \
         && chmod 700 \"$t\" && [ \"$(\"$t\" agent --sum)\" = {whole} ] && mv -f \"$t\" \
         \"$b/ioecho\" || {{ rm -f \"$t\"; exit 1; }}",
        directory(host)
    );
    let sent = || -> io::Result<(bool, String)> {
        let mut child = through(host, &script)
            .stdin(Stdio::from(File::open("/proc/self/exe")?))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let (to, said) = mpsc::channel();
        if let Some(stderr) = child.stderr.take() {
            ioecho_linux::thread::start("sent", move || {
                // Nobody waits any more for what cannot be handed over.
                let _ = to.send(words_of(stderr));
            })?;
        }
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if asked() || begun.elapsed() > SENDS_WITHIN {
                let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                child.wait()?;
                return Ok((
                    false,
                    format!("it takes longer than {} s", begun.elapsed().as_secs()),
                ));
            }
            thread::sleep(LOOK_EVERY);
        };
        Ok((status.success(), said.recv_timeout(SAID_WITHIN).unwrap_or_default()))
    };
    match sent() {
        Ok((true, _)) => Ok(()),
        Ok((false, said)) => {
            let why = said.lines().last().unwrap_or("it could not be run there").to_owned();
            Err(format!("the program cannot be sent: {why}"))
        }
        Err(error) => Err(format!("the program cannot be sent: {error}")),
    }
}

/// The beginning of what a host says to an error; the rest is read and left out.
fn words_of(mut stderr: impl io::Read) -> String {
    let mut said = Vec::new();
    let read = stderr.by_ref().take(SAID_MAX).read_to_end(&mut said);
    let _ = read.and_then(|_| io::copy(&mut stderr, &mut io::sink()));
    String::from_utf8_lossy(&said).into_owned()
}

/// Sets `d` to the directory of the agent.
fn directory(host: &Host) -> String {
    match &host.directory {
        Some(directory) => format!("d={}", quoted(directory)),
        None => "d=\"${XDG_CACHE_HOME:-$HOME/.cache}/ioecho/agent\"".to_owned(),
    }
}

/// A script for the shell of a host.
fn through(host: &Host, script: &str) -> Command {
    let (program, rest) =
        host.launch.split_first().map_or(("sh", &[][..]), |(it, rest)| (it, rest));
    let mut command = Command::new(program);
    command.args(rest);
    if host.is_shell {
        // ssh joins its words, and a shell there takes them apart again.
        command.arg(format!("sh -c {}", quoted(script)));
    } else {
        command.args(["sh", "-c", script]);
    }
    command
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// How long a host may take to answer for the first time.
pub(super) const FIRST_ANSWER_WITHIN: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use ioecho_campaign::place::Place;

    use super::*;

    fn words(host: &Host) -> Vec<String> {
        let command = agent(host, As::Taker, "b").unwrap();
        let rest = command.get_args().map(|word| word.to_string_lossy().into_owned());
        [command.get_program().to_string_lossy().into_owned()].into_iter().chain(rest).collect()
    }

    #[test]
    fn words_survive_the_shells_on_their_way() {
        let launch = ["ip", "netns", "exec", "n1"].map(str::to_owned).to_vec();
        let place = Place::outside("test");
        let directory = Some("/it's here".to_owned());
        let (name, number, set) = ("n1".to_owned(), "1".to_owned(), Vec::new());
        let mut host = Host { name, launch, is_shell: false, directory, set, number, place };
        let script = concat!(
            r#"d='/it'\''s here'; p="$d/bin/b/ioecho"; [ -x "$p" ] || exit 127; "#,
            r#"exec "$p" agent --take --directory "$d""#
        );
        assert_eq!(words(&host), ["ip", "netns", "exec", "n1", "sh", "-c", script]);
        host.launch = vec!["ssh".to_owned(), "h".to_owned()];
        host.is_shell = true;
        let [ssh, h, whole] = &words(&host)[..] else { panic!() };
        assert_eq!((ssh.as_str(), h.as_str()), ("ssh", "h"));
        let echo = whole.replacen("sh -c ", "printf %s ", 1);
        let output = Command::new("sh").args(["-c", &echo]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), script);
    }
}
