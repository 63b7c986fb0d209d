//! What can be typed behind `ioecho vdbench`.

#[derive(Debug, clap::Args)]
pub(crate) struct VdbenchArgs {
    /// Arguments as Vdbench takes them: -f FILE…, -o DIR, -e, -i, -w SECONDS, -r RUN, -s, and
    /// NAME=VALUE; those with two dashes are of `ioecho run`, such as --destroy (docs/workloads.md)
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    pub(crate) words: Vec<String>,
}
