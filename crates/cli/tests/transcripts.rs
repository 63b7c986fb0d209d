//! Transcripts of commands: what a person types and what comes back, word for word.
//!
//! `TRYCMD=overwrite cargo test -p ioecho --test transcripts` takes over what the program says now;
//! read the difference before committing it.

#[test]
fn commands_say_what_the_transcripts_say() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}
