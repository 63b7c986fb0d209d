//! How a program of the user's is talked to: a line of JSON in, one out, for each verb.
//!
//! The program sets up what ioecho does not know, and it runs as root. What it answers is read by
//! a type: a program that is misunderstood has set up something else than what is measured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ground::{Command, Fault, Kind, Output, Result, Volume};
use crate::value::Value;

/// The version of what is asked and answered.
const VERSION: u32 = 1;

/// What a program is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verb {
    /// Whether it can be done, what is lost, and the volumes after it. Changes nothing.
    Check,
    /// The state that `undo` needs. Changes nothing.
    Before,
    /// Sets up.
    Apply,
    /// Whether everything is as it was set up. Changes nothing.
    Verify,
    /// Does what is due while the replay goes on.
    Beside,
    /// What is to be kept with the results. Changes nothing.
    Collect,
    /// Takes back.
    Undo,
}

impl Verb {
    /// The word.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Before => "before",
            Self::Apply => "apply",
            Self::Verify => "verify",
            Self::Beside => "beside",
            Self::Collect => "collect",
            Self::Undo => "undo",
        }
    }
}

/// What a program reads.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Question<'a> {
    pub(crate) v: u32,
    pub(crate) verb: Verb,
    pub(crate) set: &'a BTreeMap<String, Value>,
    pub(crate) volumes: &'a [Volume],
    pub(crate) state: &'a serde_json::Value,
    /// What everything that is made must bear in its name; not known before anything is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tag: Option<&'a str>,
    /// The second of the replay for which `beside` is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<f64>,
}

impl<'a> Question<'a> {
    /// A question with these settings.
    pub(crate) fn new(
        verb: Verb,
        set: &'a BTreeMap<String, Value>,
        volumes: &'a [Volume],
        state: &'a serde_json::Value,
    ) -> Self {
        Self { v: VERSION, verb, set, volumes, state, tag: None, at: None }
    }

    /// The line that is read.
    pub(crate) fn line(&self) -> String {
        // Texts, lists and numbers always have a form in JSON.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

/// What a program answers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answer {
    #[serde(default, rename = "v")]
    _v: Option<u32>,
    /// Whether it is done, or true.
    pub(crate) ok: bool,
    /// The volumes after it; without them those before.
    #[serde(default)]
    pub(crate) volumes: Option<Vec<Answered>>,
    /// Whatever the program wants to be told again.
    #[serde(default)]
    pub(crate) state: serde_json::Value,
    /// The paths of the volumes whose data are lost.
    #[serde(default)]
    pub(crate) loses: Vec<String>,
    /// What is to be told.
    #[serde(default)]
    pub(crate) say: String,
}

/// A volume in an answer. The path is enough; what is there is looked at, and whether its data may
/// be lost is not for the program to say. So a volume may be answered as it was told.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answered {
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) kind: Option<Kind>,
    #[serde(default)]
    pub(crate) size: u64,
    #[serde(default, rename = "may_lose")]
    _may_lose: bool,
    #[serde(default, rename = "is_there")]
    _is_there: bool,
}

/// The part of an answer that is read first.
#[derive(Deserialize)]
struct Versioned {
    #[serde(default)]
    v: Option<u32>,
}

/// The answer in what a program printed.
///
/// # Errors
///
/// If it failed, or there is no answer, or it cannot be read, or it is not `ok`.
pub(crate) fn answer(command: &Command, output: Output) -> Result<Answer> {
    let output = output.good(command)?;
    let text = output.stdout.trim();
    let wrong = |what: String| {
        Fault::Failed(format!(
            "{command}: {what}\n  = help: it must print one line such as {{\"ok\":true}} \
             (docs/modules.md)"
        ))
    };
    if text.is_empty() {
        return Err(wrong("it gave no answer".to_owned()));
    }
    let unreadable = |error: serde_json::Error| wrong(format!("its answer is wrong: {error}"));
    let Versioned { v } = serde_json::from_str(text).map_err(unreadable)?;
    if let Some(v) = v.filter(|v| *v != VERSION) {
        return Err(wrong(format!("it answers in version {v}, and {VERSION} is known")));
    }
    let answer: Answer = serde_json::from_str(text).map_err(unreadable)?;
    if !answer.ok {
        let said = if answer.say.is_empty() { "no reason is given" } else { &answer.say };
        return Err(Fault::Failed(format!("{command}: {said}")));
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(stdout: &str) -> Result<Answer> {
        let output = Output { code: Some(0), stdout: stdout.to_owned(), ..Output::default() };
        answer(&Command::new(["./p"]), output)
    }

    #[test]
    fn a_question_is_one_line_with_everything_that_a_program_may_need() {
        let set = [("depth".to_owned(), Value::One("4".to_owned()))].into();
        let volume = Volume {
            path: "/dev/sda".to_owned(),
            kind: Kind::Block,
            size: 512,
            may_lose: false,
            is_there: true,
        };
        let state = serde_json::json!(null);
        let question = Question {
            tag: Some("ioecho-7"),
            at: Some(2.5),
            ..Question::new(Verb::Beside, &set, std::slice::from_ref(&volume), &state)
        };
        let line = concat!(
            r#"{"v":1,"verb":"beside","set":{"depth":"4"},"volumes":[{"path":"/dev/sda","#,
            r#""kind":"block","size":512,"may_lose":false,"is_there":true}],"state":null,"#,
            r#""tag":"ioecho-7","at":2.5}"#,
            "\n"
        );
        assert_eq!(question.line(), line);
        // A volume may be answered as it was told.
        let told = serde_json::to_string(&volume).unwrap();
        let answer = answered(&format!("{{\"ok\":true,\"volumes\":[{told}]}}")).unwrap();
        assert_eq!(answer.volumes.unwrap()[0].path, "/dev/sda");
    }

    #[test]
    fn an_answer_that_is_not_one_is_refused() {
        for (stdout, expected) in [
            ("", "it gave no answer"),
            ("done", "its answer is wrong"),
            ("{\"ok\":true} {\"ok\":true}", "its answer is wrong: trailing characters"),
            ("{}", "missing field `ok`"),
            ("{\"ok\":\"yes\"}", "invalid type"),
            ("{\"ok\":true,\"loose\":[]}", "unknown field `loose`"),
            ("{\"ok\":true,\"volumes\":[{\"name\":\"x\"}]}", "unknown field `name`"),
            ("{\"v\":2,\"fine\":true}", "it answers in version 2, and 1 is known"),
            ("{\"ok\":false,\"say\":\"no battery\"}", "./p: no battery"),
            ("{\"ok\":false}", "no reason is given"),
        ] {
            let fault = answered(stdout).unwrap_err();
            assert!(fault.to_string().contains(expected), "{stdout}: {fault}");
        }
        let failed = Output { code: Some(3), stderr: "no rights".to_owned(), ..Output::default() };
        let fault = answer(&Command::new(["./p"]), failed).unwrap_err();
        assert_eq!(fault.to_string(), "./p: exit code 3: no rights");
        assert!(answered("{\"v\":1,\"ok\":true,\"say\":\"well\"}\n").unwrap().loses.is_empty());
    }
}
