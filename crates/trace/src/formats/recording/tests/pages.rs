//! Events of pages.

use std::path::Path;

use proptest::prelude::*;

use super::super::pages::{Decoded, Layouts};
use super::making::{Made, Page, description, device, made, payload};
use crate::formats::blktrace::gaps::Stretch;
use crate::formats::blktrace::notices::Notices;
use crate::formats::blktrace::record::{Event, kind};
use crate::recording::Description;

fn decode(description: &Description, pages: &[Vec<u8>]) -> (Vec<Event>, Decoded, Notices) {
    let layouts = Layouts::of(description, Path::new("x")).unwrap();
    let (mut decoded, mut notices) = (Decoded::default(), Notices::default());
    let mut events = Vec::new();
    for page in pages {
        decoded.page(&layouts, page, u32::MAX, &mut events, &mut notices).unwrap();
    }
    (events, decoded, notices)
}

#[test]
fn times_are_summed_extended_and_set_as_the_kernel_does() {
    let description = description();
    let event = payload(&description, &made("block_bio_queue", "R", 8, 8));
    let mut page = Page::new(1000);
    page.event(1000, &event).event(1005, &event).extend(1 << 40).event((1 << 40) + 1006, &event);
    page.discarded(7, 24).event((1 << 40) + 1015, &event);
    page.stamp((1 << 40) + 5000).long_event(3, &event);
    page.record(29, 0, &[]).record(1, 1, &[0xff; 4]);
    let (events, decoded, notices) = decode(&description, &[page.bytes()]);
    let far = 1 << 40;
    let times: Vec<_> = events.iter().map(|event| event.time).collect();
    assert_eq!(times, [1000, 1005, far + 1006, far + 1015, far + 5003]);
    assert_eq!(decoded.kinds[usize::from(kind::QUEUE)], 5);
    assert_eq!(notices.processes, [(42, "worker".to_owned())]);
}

#[test]
fn an_absolute_time_takes_its_upper_bits_from_the_time_before() {
    let description = description();
    let event = payload(&description, &made("block_bio_queue", "R", 8, 8));
    let upper = 3_u64 << 59;
    let mut page = Page::new(upper + 50);
    page.event(upper + 50, &event).stamp(60).record(16, 0, &event);
    page.stamp(10).record(16, 0, &event);
    let (events, ..) = decode(&description, &[page.bytes()]);
    let times: Vec<_> = events.iter().map(|event| event.time).collect();
    assert_eq!(times, [upper + 50, upper + 60, upper + (1 << 59) + 10]);
}

#[test]
fn what_a_tracepoint_says_is_in_the_event() {
    let description = description();
    let failed = Made { error: -5, ..made("block_rq_complete", "WFS", 77, 16) };
    let split = made("block_split", "R", 100, 8);
    let flush = made("block_rq_complete", "FF", u64::MAX, 0);
    let command = made("block_rq_issue", "N", 0, 0);
    let unknown = vec![0xfe; 16];
    let mut page = Page::new(5);
    for made in [&failed, &split, &flush, &command] {
        page.event(6, &payload(&description, made));
    }
    page.event(7, &unknown);
    let (events, decoded, _) = decode(&description, &[page.bytes()]);
    let told: Vec<_> =
        events.iter().map(|event| (event.kind, event.sector, event.bytes, event.failed)).collect();
    let expected = [
        (kind::COMPLETE, 77, 8192, true),
        (kind::SPLIT, 100, 4096, false),
        (kind::COMPLETE, 0, 0, false),
    ];
    assert_eq!(told, expected);
    assert!(events.iter().all(|event| event.pid == 42 && event.device == device()));
    assert_eq!(decoded.passthrough[usize::from(kind::ISSUE)], 1);
}

#[test]
fn of_each_device_one_sort_of_completion_is_taken() {
    let mut description = description();
    let mut page = Page::new(5);
    for name in ["block_bio_complete", "block_rq_complete"] {
        page.event(6, &payload(&description, &made(name, "R", 8, 8)));
    }
    for bio_based in [true, false] {
        description.devices[0].bio_based = bio_based;
        let (events, ..) = decode(&description, &[page.bytes()]);
        assert_eq!(events.len(), 1);
    }
    page.event(7, &payload(&description, &made("block_bio_complete", "R", 16, 8)));
    description.devices[0].bio_based = true;
    assert_eq!(decode(&description, &[page.bytes()]).0[1].sector, 16);
}

#[test]
fn lost_events_make_a_gap_from_the_last_event_on() {
    let description = description();
    let event = payload(&description, &made("block_bio_queue", "R", 8, 8));
    let mut pages = Vec::new();
    for (time, lost) in [(100, Some(Some(3))), (200, Some(None)), (300, None), (400, Some(Some(9)))]
    {
        let mut page = Page::new(time);
        page.event(time + 10, &event);
        if let Some(events) = lost {
            page.lost(events);
        }
        pages.push(page.bytes());
    }
    let (events, decoded, _) = decode(&description, &pages);
    assert_eq!(events.len(), 4);
    let stretch = |from, to, events| Stretch { from, to, events };
    let expected = [stretch(100, 100, 3), stretch(110, 200, 0), stretch(310, 400, 9)];
    assert_eq!(decoded.gaps.stretches(), expected);
    assert_eq!(decoded.gaps.events(), 12);
}

#[test]
fn a_page_that_lies_about_its_records_is_told() {
    let description = description();
    let layouts = Layouts::of(&description, Path::new("x")).unwrap();
    let why = |page: &Page| {
        let (mut decoded, mut notices) = (Decoded::default(), Notices::default());
        decoded.page(&layouts, &page.bytes(), u32::MAX, &mut Vec::new(), &mut notices).err()
    };
    let id = description.tracefs.as_ref().unwrap().events[0].id;
    let mut short = [0; 8];
    short[..2].copy_from_slice(&id.to_le_bytes());
    assert_eq!(
        why(Page::new(1).record(2, 1, &short)),
        Some("an event is shorter than its format says")
    );
    assert_eq!(why(Page::new(1).record(9, 1, &short)), Some("an event reaches beyond its page"));
    assert_eq!(why(Page::new(1).record(30, 1, &[])), Some("a record reaches beyond its page"));
    let lying = u32::MAX.to_le_bytes();
    assert_eq!(why(Page::new(1).record(0, 1, &lying)), Some("an event reaches beyond its page"));
    assert_eq!(why(Page::new(1).record(29, 1, &lying)), None);
}

/// Events that may stand in a page: time since the last, tracepoint, letters, sector, sectors.
fn rows() -> impl Strategy<Value = Vec<(u64, usize, usize, u64, u32)>> {
    let delta = prop_oneof![0_u64..1000, 0_u64..1 << 30, 0_u64..1 << 50];
    proptest::collection::vec((delta, 0_usize..4, 0_usize..6, any::<u64>(), any::<u32>()), 0..200)
}

const NAMES: [&str; 4] =
    ["block_bio_queue", "block_rq_issue", "block_rq_complete", "block_bio_backmerge"];
const LETTERS: [&str; 6] = ["R", "WS", "FWFSM", "RA", "DS", "FF"];

proptest! {
    #[test]
    fn events_are_read_as_they_were_put_into_pages(
        rows in rows(), start in 0_u64..1 << 55, page_bytes in 100_usize..4000,
    ) {
        let description = description();
        let (mut pages, mut page, mut now) = (Vec::new(), Page::new(start), start);
        let (mut expected, mut absurd) = (Vec::new(), 0);
        for (delta, name, letters, sector, sectors) in rows {
            now += delta;
            if page.used() + 80 > page_bytes {
                pages.push(page.bytes());
                page = Page::new(now);
            }
            let made = made(NAMES[name], LETTERS[letters], sector, sectors);
            page.event(now, &payload(&description, &made));
            let sector = if sector == u64::MAX { 0 } else { sector };
            match (u32::try_from(u64::from(sectors) * 512), sector.checked_mul(512)) {
                (Ok(bytes), Some(_)) => expected.push((now, sector, bytes)),
                _ => absurd += 1,
            }
        }
        pages.push(page.bytes());
        let (events, decoded, _) = decode(&description, &pages);
        prop_assert_eq!(decoded.absurd, absurd);
        let found: Vec<_> =
            events.iter().map(|event| (event.time, event.sector, event.bytes)).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn no_page_panics(page in proptest::collection::vec(any::<u8>(), 0..600), used in 0_u64..600) {
        let description = description();
        let layouts = Layouts::of(&description, Path::new("x")).unwrap();
        let (mut decoded, mut notices) = (Decoded::default(), Notices::default());
        let mut page = page;
        if page.len() >= 16 {
            let used = used.min(page.len() as u64 - 16);
            page[8..16].copy_from_slice(&used.to_le_bytes());
        }
        let mut events = Vec::new();
        let _ = decoded.page(&layouts, &page, u32::MAX, &mut events, &mut notices);
        prop_assert!(events.is_sorted_by_key(|event| event.time));
    }
}
