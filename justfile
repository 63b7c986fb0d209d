# Everything that CI does, and what a developer does by hand. `just` lists the recipes.

default:
    @just --list

# What CI runs.
ci:
    .ci/run

# The README's second command: every test.
test:
    cargo test --workspace --locked

# Formatting and lints, as CI asks for them.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings

# The documentation of the code.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

# Simulate N more loads on N more devices, from other seeds each time.
simulate N="100000":
    IOECHO_SEEDS=$(date +%s)..$(($(date +%s) + {{N}})) cargo test --release -p ioecho-replay --test simulation no_seed

# Fuzz one parser for so many seconds (needs nightly and cargo-fuzz).
fuzz TARGET SECONDS="60":
    cd fuzz && cargo +nightly fuzz run {{TARGET}} -- -max_total_time={{SECONDS}}

# Speed of the readers, requests per second.
bench:
    cargo bench --locked -p ioecho-trace

# Lateness against fio's, on a loop device over tmpfs (root; installs fio).
bench-lateness:
    bench/lateness.sh

# Fidelity against fio, btreplay, blkreplay and a bare pacer (root; installs them; docs/fidelity.md).
bench-fidelity *ARGS:
    bench/fidelity/run {{ARGS}}

# Tests of that benchmark's figures.
bench-fidelity-test:
    python3 -B -m unittest discover -s bench/fidelity

# Replay on faster storage beside the application itself (root, FUSE; docs/scaled-replay.md).
bench-scaled *ARGS:
    bench/scaled/run {{ARGS}}

# Tests of that benchmark's figures.
bench-scaled-test:
    python3 -B -m unittest discover -s bench/scaled

# Tests of the Python package, on the newest program that was built here.
python-test:
    python3 -B -m unittest discover -s python/tests

# The documentation as a site in target/site (needs mdBook).
site:
    packaging/links.py
    mdbook build docs
    packaging/links.py target/site

# What is handed to others, in dist/, and a trial of it (needs maturin).
dist:
    packaging/dist.sh
    packaging/smoke.sh

# A release up to its signed tag; publishing is the owner's.
release VERSION:
    packaging/release.sh {{VERSION}}

# Memory of convert and replay on a trace of 50 million requests.
bench-memory:
    bench/memory.sh

# Processor time, memory and bytes of an analysis in parts, by the number of requests.
bench-scale *ARGS:
    bench/scale.py {{ARGS}}

# Licences and advisories of the dependencies (needs cargo-deny).
deny:
    cargo deny check

# The tests that need another kernel, in a virtual machine.
test-vm:
    cargo build -p ioecho
    tests/vm/all.sh
