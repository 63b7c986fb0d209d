//! The sonar diagrams of the volumes, packed for a page.
//!
//! Seventeen diagrams in the full resolution may have twenty megabytes, and a page should have at
//! most three. So all of them are made coarser in time, by the same factor, until they fit. If each
//! volume has few requests, as is usual, they keep the full resolution.

use ioecho_stats::picture::Panels;
use ioecho_stats::raster::Raster;
use serde::Serialize;

use super::{base64, pack, raster};
use crate::layers::Layer;

/// The limit of all volumes' packed diagrams together, in bytes before base64, which adds a third.
const LARGEST: usize = 700_000;

/// The volumes of a page; empty if there is only one.
#[derive(Serialize)]
pub(super) struct Volumes {
    /// Each bucket of these diagrams covers 2^doublings buckets of the other diagrams.
    doublings: u32,
    list: Vec<Volume>,
}

/// A volume with its name; for each layer the cells of its diagram.
#[derive(Serialize)]
struct Volume {
    name: String,
    cells: Vec<String>,
}

/// The diagrams of all volumes, in the finest resolution that fits.
pub(super) fn packed(panels: &Panels, layers: &[Layer], names: &[(u32, String)]) -> Volumes {
    let of = |sonar| layers.iter().map(|layer| raster(sonar, layer)).collect();
    let mut sonars: Vec<Vec<Raster>> = panels.volumes.iter().map(|(_, sonar)| of(sonar)).collect();
    let finest = sonars.iter().flatten().map(Raster::doublings).max().unwrap_or(0);
    let mut doublings = 0;
    let packed = loop {
        let packed: Vec<Vec<Vec<u8>>> =
            sonars.iter().map(|sonar| sonar.iter().map(pack).collect()).collect();
        let size: usize = packed.iter().flatten().map(Vec::len).sum();
        // After eleven doublings a diagram is a single column.
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
    use crate::layers::layers;
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
        let busy = packed(&panels(2_000_000, 40), &layers(|_| 0), &[]);
        let size: usize = busy.list.iter().flat_map(|volume| &volume.cells).map(String::len).sum();
        assert!(busy.doublings > 0 && size < LARGEST * 3 / 2, "{} {size}", busy.doublings);
        let names: Vec<&str> = busy.list.iter().map(|volume| &*volume.name).collect();
        assert_eq!((names.len(), names[0], names[16]), (17, "volume 0", "others"));
    }

    #[test]
    fn those_of_a_quiet_run_stay_as_fine_as_the_whole() {
        let names = [(1, "log".to_owned()), (0, String::new())];
        let quiet = packed(&panels(100, 2), &layers(|_| 0), &names);
        let told: Vec<&str> = quiet.list.iter().map(|volume| &*volume.name).collect();
        assert_eq!((quiet.doublings, told), (0, vec!["volume 0", "log"]));
        assert!(packed(&panels(100, 1), &layers(|_| 0), &names).list.is_empty());
    }
}
