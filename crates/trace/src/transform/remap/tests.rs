use super::super::tests::{made, refused};
use super::*;
use crate::batch::tests::any_request;
use crate::{Nanos, Request};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Requests on some 64 KiB, a few of them far away or very long.
fn near() -> impl Strategy<Value = Vec<Request>> {
    proptest::collection::vec(any_request(), 0..100).prop_map(|mut requests| {
        for (n, request) in requests.iter_mut().enumerate() {
            if n % 17 != 3 {
                request.offset.0 %= 1 << 16;
                request.length.0 %= 5000;
            }
            request.measured = None;
        }
        requests.sort_by_key(|request| request.issue);
        requests
    })
}

/// The requests with a range, each at the offset that `place` gives.
fn moved(requests: &[Request], place: impl Fn(&Request) -> Option<u64>) -> Vec<Request> {
    let placed = requests.iter().filter_map(|request| {
        if request.op == Op::Flush {
            return Some(*request);
        }
        Some(Request { offset: Bytes(place(request)?), ..*request })
    });
    placed.collect()
}

proptest! {
    #[test]
    fn wrapped_positions_are_taken_modulo_the_size(
        requests in near(), rows in 1_usize..40, device in 1_u64..50_000,
    ) {
        let (all, header) = made(&format!("remap wrap,{device}"), &requests, rows);
        let expected = moved(&requests, |request| {
            let last = device.checked_sub(request.length.0)?;
            Some((request.offset.0 % device).min(last))
        });
        let dropped = (requests.len() - expected.len()) as u64;
        prop_assert_eq!(all, expected);
        prop_assert_eq!(header.losses.count_of(TOO_LONG), dropped);
        let crossing = requests.iter().filter(|request| {
            let length = request.length.0;
            request.op != Op::Flush && length <= device
                && request.offset.0 % device + length > device
        });
        prop_assert_eq!(header.guesses.count_of(CROSSING), crossing.count() as u64);
    }

    #[test]
    fn folded_every_byte_lies_at_the_mirrored_place(
        requests in near(), rows in 1_usize..40, device in 1_u64..50_000,
    ) {
        let (all, _) = made(&format!("remap fold,{device}"), &requests, rows);
        let expected = moved(&requests, |request| {
            let (offset, length) = (u128::from(request.offset.0), u128::from(request.length.0));
            let device = u128::from(device);
            let mirror = |byte: u128| {
                let at = byte % (2 * device);
                if at < device { at } else { 2 * device - 1 - at }
            };
            if length > device {
                return None;
            }
            let low = if length == 0 {
                // An empty range lies between two bytes.
                let at = offset % (2 * device);
                if at < device { at } else { 2 * device - at }
            } else if offset / device == (offset + length - 1) / device {
                mirror(offset).min(mirror(offset + length - 1))
            } else if (offset / device).is_multiple_of(2) {
                device - length
            } else {
                0
            };
            Some(low as u64)
        });
        prop_assert_eq!(all, expected);
    }

    #[test]
    fn scaled_positions_keep_their_order_and_their_place_in_the_block(
        requests in near(), rows in 1_usize..40, device in 1_u64..1 << 40,
        from in proptest::option::of(1_u64..1 << 20), align in prop_oneof![Just(1_u64), Just(512)],
    ) {
        let said = from.map_or(String::new(), |from| format!(",from={from}"));
        let line = format!("remap scale,{device},align={align}{said}");
        let (all, header) = made(&line, &requests, rows);
        let end = requests.iter().map(|request| request.end().0).max().unwrap_or(0).max(1);
        let from = from.unwrap_or(end);
        let expected = moved(&requests, |request| {
            let last = device.checked_sub(request.length.0)?;
            let at = u128::from(request.offset.0) * u128::from(device) / u128::from(from);
            let at = at / u128::from(align) * u128::from(align);
            let at = at + u128::from(request.offset.0 % align);
            Some(at.min(u128::from(last)) as u64)
        });
        prop_assert_eq!(all, expected);
        let told = format!("from={},", size(Bytes(from)));
        prop_assert!(header.transforms[0].contains(&told), "{:?}", header.transforms);
    }

    #[test]
    fn clipped_what_fits_stays_as_it_is(
        requests in near(), rows in 1_usize..40, device in 1_u64..50_000,
    ) {
        let (all, header) = made(&format!("remap clip,{device}"), &requests, rows);
        let expected = moved(&requests, |request| {
            (request.end().0 <= device).then_some(request.offset.0)
        });
        let dropped = (requests.len() - expected.len()) as u64;
        prop_assert_eq!(all, expected);
        prop_assert_eq!(header.losses.count_of(BEYOND), dropped);
    }

    #[test]
    fn packed_the_regions_that_are_touched_lie_side_by_side_in_their_order(
        mut requests in near(), rows in 1_usize..40, region in 1_u64..10_000,
        device in proptest::option::of(1_u64..100_000),
    ) {
        for request in &mut requests {
            request.offset.0 %= 1 << 20;
            request.length.0 %= 20_000;
        }
        let size = device.map_or(String::new(), |device| format!(",{device}"));
        let (all, header) = made(&format!("remap pack{size},region={region}"), &requests, rows);
        let mut touched = BTreeSet::new();
        for request in requests.iter().filter(|request| request.op != Op::Flush) {
            let last = request.end().0.max(request.offset.0 + 1) - 1;
            let regions = request.offset.0 / region..=last / region;
            touched.extend(regions.map(|region| (request.volume.0, region)));
        }
        let expected = moved(&requests, |request| {
            let (volume, at) = (request.volume.0, request.offset.0 / region);
            let packed = touched.range((volume, 0)..(volume, at)).count() as u64;
            let at = packed * region + request.offset.0 % region;
            (at + request.length.0 <= device.unwrap_or(u64::MAX)).then_some(at)
        });
        let dropped = (requests.len() - expected.len()) as u64;
        prop_assert_eq!(all, expected);
        prop_assert_eq!(header.losses.count_of(BEYOND), dropped);
    }
}

#[test]
fn the_ends_of_64_bits_are_no_trouble() {
    let at = |offset, length| Request::new(Nanos(0), Op::Read, Bytes(offset), Bytes(length));
    let requests = [at(0, u64::MAX), at(u64::MAX, 0), at(u64::MAX - 1, 1), at(1, u64::MAX - 1)];
    for line in [
        "remap wrap,1G",
        "remap fold,1000",
        "remap scale,1G",
        "remap scale,1G,from=1",
        "remap pack",
        "remap pack,1G,region=1",
        "remap clip,1G",
    ] {
        let (all, header) = made(line, &requests, 2);
        let lost: u64 = header.losses.iter().map(|note| note.count).sum();
        assert_eq!(all.len() as u64 + lost, 4, "{line}");
    }
}

#[test]
fn what_is_not_clear_is_refused() {
    assert!(refused("remap").starts_with("how to remap"));
    assert!(refused("remap squeeze,1G").contains("there is no way 'squeeze'"));
    assert_eq!(refused("remap wrap"), "the size of the device is missing");
    assert_eq!(refused("remap clip,0"), "the size of the device must be more than 0");
    assert!(refused("remap wrap,1G,region=4k").contains("there is no setting 'region'"));
    assert!(refused("remap pack,region=0").contains("more than 0"));
}
