//! Pitfalls of the load against the target.

use crate::stand::{Stand, grade};

#[test]
fn a_load_wrapped_many_times_onto_a_small_target_is_suspect() {
    let stand = Stand::new();
    let replay = |size: &str, run: &str| {
        let load = "gen:random?size=4k&rate=2000&count=200&area=64M";
        let target = format!("sim:model=const,size={size}");
        stand.ioecho(&["replay", load, "--target", &target, "-o", run])
    };
    replay("16m", "small");
    replay("64m", "right");
    assert_eq!(grade(&stand.path("small"), "wraparound"), "suspect");
    assert_eq!(grade(&stand.path("right"), "wraparound"), "pass");
}
