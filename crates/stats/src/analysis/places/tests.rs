use std::collections::{BTreeMap, HashMap};

use ioecho_trace::{Bytes, Nanos, Op, Request, VolumeId};
use proptest::prelude::*;

use super::map::{COLUMNS, ROWS, VOLUMES_MAX};
use super::*;
use crate::analysis::laws::{absurd, assert_laws, load};
use crate::analysis::shape::Grid;
use crate::count::sample::mix;

fn places(requests: &[Request]) -> Places {
    let mut places = Places::default();
    for request in requests {
        places.observe(request);
    }
    places
}

fn moves_data(request: &&Request) -> bool {
    matches!(request.op, Op::Read | Op::Write)
}

proptest! {
    #[test]
    fn the_laws_hold(load in load(), first in 0_usize..120, second in 0_usize..120) {
        assert_laws(&Places::default(), Places::figures, &load, (first, second));
    }

    #[test]
    fn nothing_absurd_makes_it_fall_over(load in absurd()) {
        let mut places = Places::new(&[1, 7, i64::MAX, -3]);
        for request in &load {
            places.observe(request);
        }
        let mut twice = places.clone();
        twice.merge(&places);
        twice.figures();
    }

    #[test]
    fn the_distance_of_a_window_is_its_highest_start_less_its_lowest(load in load()) {
        for distance in places(&load).figures().distances {
            let mut windows: HashMap<i64, BTreeMap<u32, Vec<u64>>> = HashMap::new();
            for request in load.iter().filter(moves_data) {
                let volumes = windows.entry(request.issue.0 / distance.window_ns).or_default();
                volumes.entry(request.volume.0).or_default().push(request.offset.0);
            }
            prop_assert_eq!(distance.sum.step_ns, distance.window_ns);
            for (place, sum) in distance.sum.values.iter().enumerate() {
                let from = distance.sum.start_ns + place as i64 * distance.sum.step_ns;
                let window = windows.get(&(from / distance.window_ns));
                let expected = window.map(|volumes| {
                    let reach = |places: &Vec<u64>| {
                        (places.iter().max().unwrap() - places.iter().min().unwrap()) as f64
                    };
                    volumes.values().map(reach).sum::<f64>()
                });
                prop_assert_eq!(*sum, expected);
                let requests = window.map(|volumes| volumes.values().map(Vec::len).sum::<usize>());
                let mean = expected.map(|sum| sum / requests.unwrap() as f64);
                prop_assert_eq!(distance.mean.values[place], mean);
            }
        }
    }

    #[test]
    fn every_request_lies_in_one_cell_of_its_map_and_in_one_bin(load in load()) {
        let figures = places(&load).figures();
        let requests = load.iter().filter(moves_data).count() as u64;
        let sum = |grid: &Grid| grid.cells.iter().map(|cell| cell.2).sum::<u64>();
        let mapped: u64 = figures.maps.iter().map(|map| sum(&map.reads) + sum(&map.writes)).sum();
        prop_assert_eq!(mapped, requests);
        prop_assert_eq!(figures.positions.all.counts.iter().sum::<u64>(), requests);
        for map in &figures.maps {
            prop_assert!(u64::from(map.reads.x.cells) <= COLUMNS);
            prop_assert!(u64::from(map.reads.y.cells) <= ROWS);
            for request in load.iter().filter(moves_data) {
                if Some(request.volume.0) != map.volume {
                    continue;
                }
                let grid = if request.op == Op::Read { &map.reads } else { &map.writes };
                let (x, y) = (request.issue.as_secs_f64(), request.offset.0 as f64);
                let holds = |cell: &(u32, u32, u64)| {
                    (grid.x.scale.edge(cell.0)..=grid.x.scale.edge(cell.0 + 1)).contains(&x)
                        && (grid.y.scale.edge(cell.1)..=grid.y.scale.edge(cell.1 + 1)).contains(&y)
                };
                prop_assert!(grid.cells.iter().any(holds), "{request:?}");
            }
        }
    }
}

#[test]
fn the_hottest_region_comes_first_and_says_what_goes_there() {
    let at = |place: u64, op: Op| Request::new(Nanos(0), op, Bytes(place), Bytes(4096));
    let figures = places(&[
        at(0, Op::Read),
        at(5 << 20, Op::Write),
        at((5 << 20) + 512, Op::Read),
        at(6 << 20, Op::Discard),
    ])
    .figures();
    assert_eq!((figures.region_bytes, figures.regions), (1 << 20, 2));
    let hottest = figures.hottest[0];
    assert_eq!(
        (hottest.begin_bytes, hottest.requests.all, hottest.requests.reads),
        (5 << 20, 2, 1)
    );
    assert_eq!(hottest.bytes.writes, 4096);
    assert!((hottest.share - 2.0 / 3.0).abs() < 1e-9);
}

#[test]
fn of_too_many_regions_and_volumes_the_parts_agree_with_the_whole() {
    let load: Vec<Request> = (0..300_000_u64)
        .map(|number| {
            let place = Bytes(mix(number) >> 20);
            let mut request = Request::new(Nanos(number as i64), Op::Read, place, Bytes(512));
            request.volume = VolumeId(mix(number) as u32 % (VOLUMES_MAX as u32 + 4));
            request
        })
        .collect();
    let whole = places(&load).figures();
    assert!(whole.regions <= REGIONS_MAX as u64 && whole.region_bytes > 1 << 20);
    assert_eq!(whole.maps.len(), 1);
    assert_eq!(whole.maps[0].volume, None);
    for cut in [1, 150_000] {
        let mut merged = places(&load[..cut]);
        merged.merge(&places(&load[cut..]));
        assert!(merged.figures() == whole, "cut at {cut}");
    }
}
