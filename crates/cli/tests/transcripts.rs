//! Transcripts of commands: the command lines and their output, word for word.
//!
//! `TRYCMD=overwrite cargo test -p ioecho --test transcripts` stores the program's current output.
//! Read the difference before you commit it.

#[test]
fn commands_say_what_the_transcripts_say() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}
