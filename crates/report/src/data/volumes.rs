//! The sonar diagrams of the volumes, as a page carries them.
//!
//! Seventeen diagrams as fine as that of the whole may have twenty megabytes, and a page has three
//! at most. So they are made coarser in time, all alike, until they fit. Where few requests are in
//! each volume, which is mostly so, they stay as fine as the whole.

use ioecho_stats::picture::{Panels, Sonar};
use ioecho_stats::raster::Raster;
use serde::Serialize;

use super::{base64, pack};

/// How large the packed diagrams of all volumes may be before they become text, in bytes; as text
/// they have a third more.
const LARGEST: usize = 700_000;

/// The volumes of a page; none where there is one.
#[derive(Serialize)]
pub(super) struct Volumes {
    /// A bucket of these diagrams is 2^doublings of the others'.
    doublings: u32,
    list: Vec<Volume>,
}

/// A volume under its name; for each class the cells of its diagram.
#[derive(Serialize)]
struct Volume {
    name: String,
    cells: Vec<String>,
}

/// The diagrams of all volumes, as fine as they may be.
pub(super) fn packed(panels: &Panels, names: &[(u32, String)]) -> Volumes {
    let mut sonars: Vec<Sonar> = panels.volumes.iter().map(|(_, sonar)| sonar.clone()).collect();
    let finest = sonars.iter().flatten().map(Raster::doublings).max().unwrap_or(0);
    let mut doublings = 0;
    let packed = loop {
        let packed: Vec<Vec<Vec<u8>>> =
            sonars.iter().map(|sonar| sonar.iter().map(pack).collect()).collect();
        let size: usize = packed.iter().flatten().map(Vec::len).sum();
        // Beyond that a diagram is a single column.
        if size <= LARGEST || doublings >= 11 {
            break packed;
        }
        doublings += 1;
        for raster in sonars.iter_mut().flatten() {
            raster.widen_to(finest + doublings);
        }
    };
    let list = panels.volumes.iter().zip(packed).map(|((volume, _), sonar)| Volume {
        name: volume.map_or_else(|| "others".to_owned(), |volume| name(volume, names)),
        cells: sonar.iter().map(|cells| base64(cells)).collect(),
    });
    Volumes { doublings, list: list.collect() }
}

fn name(volume: u32, names: &[(u32, String)]) -> String {
    let known = names.iter().find(|(number, name)| *number == volume && !name.is_empty());
    known.map_or_else(|| format!("volume {volume}"), |(_, name)| name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_stats::picture::RunPicture;
    use ioecho_trace::{Bytes, Nanos, Op, Request, VolumeId};

    fn panels(requests: i64, volumes: u32) -> Panels {
        let mut picture = RunPicture::new();
        for number in 0..requests {
            let mut request =
                Request::new(Nanos::from_millis(number), Op::Read, Bytes(0), Bytes(4096));
            request.volume = VolumeId(number as u32 % volumes);
            let spread = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 34;
            request.latency = Some(Nanos(1 + spread as i64));
            picture.observe_loads(&[request]);
        }
        picture.finish()
    }

    #[test]
    fn the_diagrams_of_many_busy_volumes_are_made_coarser_until_they_fit() {
        let busy = packed(&panels(2_000_000, 40), &[]);
        let size: usize = busy.list.iter().flat_map(|volume| &volume.cells).map(String::len).sum();
        assert!(busy.doublings > 0 && size < LARGEST * 3 / 2, "{} {size}", busy.doublings);
        let names: Vec<&str> = busy.list.iter().map(|volume| &*volume.name).collect();
        assert_eq!((names.len(), names[0], names[16]), (17, "volume 0", "others"));
    }

    #[test]
    fn those_of_a_quiet_run_stay_as_fine_as_the_whole() {
        let names = [(1, "log".to_owned()), (0, String::new())];
        let quiet = packed(&panels(100, 2), &names);
        let told: Vec<&str> = quiet.list.iter().map(|volume| &*volume.name).collect();
        assert_eq!((quiet.doublings, told), (0, vec!["volume 0", "log"]));
        assert!(packed(&panels(100, 1), &names).list.is_empty());
    }
}
