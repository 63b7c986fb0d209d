//! Which part of which volume of the trace goes where.
//!
//! A trace of five disks is to run on two, or one large disk on four small ones. If two parts
//! shared a place on a target, or a volume had no target, the load would be another one: so places
//! never overlap, and unmapped requests are refused or counted. (hfplayer's configuration file, one
//! line per volume, was the model.)

use std::fmt;
use std::str::FromStr;

use ioecho_trace::header::Volume;
use ioecho_trace::{Bytes, VolumeId};
use serde::{Deserialize, Serialize};

use crate::device::TargetLimits;

/// One line of a map, as a user writes it. It is stored as that line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RouteSpec {
    /// Name or number of a volume of the trace; `*` is every volume that no other route names.
    pub volume: String,
    /// A target by its path, or by its number, counted from 1 in the order of the command line.
    pub target: String,
    /// Where the part of the volume begins.
    pub from: Bytes,
    /// How long it is; `None` is the rest of the volume.
    pub length: Option<Bytes>,
    /// Where its place on the target begins.
    pub to: Bytes,
    /// How large that place is; `None` is up to the next place, or the end of the target.
    pub room: Option<Bytes>,
    /// Positions in the part are multiplied by this.
    pub scale: f64,
}

/// Why a line of a map is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}': {reason}\n  = help: write it like sda=/dev/sdx,from=0,length=10G,to=0,room=10G,\
     scale=1 (all but VOLUME=TARGET may be left out; VOLUME * is every volume not named)"
)]
pub struct RouteSpecError {
    text: String,
    reason: String,
}

/// So much of a line is repeated in an error.
const SHOWN_MAX: usize = 200;

const KEYS: [&str; 5] = ["from", "length", "to", "room", "scale"];

impl FromStr for RouteSpec {
    type Err = RouteSpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Whatever was given by mistake need not be repeated whole.
        let shown = || text.chars().take(SHOWN_MAX).collect();
        Self::parse(text).map_err(|reason| RouteSpecError { text: shown(), reason })
    }
}

impl TryFrom<String> for RouteSpec {
    type Error = RouteSpecError;

    fn try_from(line: String) -> Result<Self, RouteSpecError> {
        line.parse()
    }
}

impl From<RouteSpec> for String {
    fn from(spec: RouteSpec) -> Self {
        spec.to_string()
    }
}

impl fmt::Display for RouteSpec {
    /// The line, with the keys that say something.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { volume, target, from, length, to, room, scale } = self;
        write!(f, "{volume}={target}")?;
        let begin = |at: &Bytes| Some(*at).filter(|at| *at != Bytes::ZERO);
        for (key, bytes) in
            [("from", begin(from)), ("length", *length), ("to", begin(to)), ("room", *room)]
        {
            if let Some(Bytes(bytes)) = bytes {
                write!(f, ",{key}={bytes}")?;
            }
        }
        if (scale - 1.0).abs() > 0.0 { write!(f, ",scale={scale}") } else { Ok(()) }
    }
}

impl RouteSpec {
    fn parse(text: &str) -> Result<Self, String> {
        let (volume, rest) = text.split_once('=').ok_or("it has no '='")?;
        // A simulated target has commas of its own, so the keys are taken off from the end.
        let mut target = rest;
        let mut pairs = Vec::new();
        while let Some((before, pair)) = target.rsplit_once(',')
            && let Some((key, value)) = pair.split_once('=')
            && KEYS.contains(&key)
        {
            pairs.push((key, value));
            target = before;
        }
        let is_simulated = target == "sim" || target.starts_with("sim:");
        if let Some((_, pair)) = target.rsplit_once(',')
            && let Some((key, _)) = pair.split_once('=')
            && !is_simulated
        {
            return Err(format!("unknown key '{key}'"));
        }
        if volume.is_empty() || target.is_empty() {
            return Err("it lacks a volume or a target".to_owned());
        }
        let mut spec = Self {
            volume: volume.to_owned(),
            target: target.to_owned(),
            from: Bytes::ZERO,
            length: None,
            to: Bytes::ZERO,
            room: None,
            scale: 1.0,
        };
        for (index, (key, value)) in pairs.iter().enumerate() {
            if pairs[..index].iter().any(|(other, _)| other == key) {
                return Err(format!("'{key}' is there twice"));
            }
            let bytes = || -> Result<Bytes, String> {
                value.parse().map_err(|error| format!("{key}: {error}"))
            };
            match *key {
                "from" => spec.from = bytes()?,
                "length" => spec.length = Some(bytes()?),
                "to" => spec.to = bytes()?,
                "room" => spec.room = Some(bytes()?),
                _ => {
                    spec.scale = value
                        .parse()
                        .ok()
                        .filter(|scale: &f64| scale.is_finite() && (1e-6..=1e6).contains(scale))
                        .ok_or("scale must be a number between 0.000001 and 1000000")?;
                }
            }
        }
        if spec.length == Some(Bytes::ZERO) || spec.room == Some(Bytes::ZERO) {
            return Err("a part or a place of no bytes holds nothing".to_owned());
        }
        Ok(spec)
    }
}

/// A route, resolved: bytes `from..until` of a volume go to bytes `base..base + room` of a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Route {
    /// The volume; `None` is every volume that no other route names.
    pub volume: Option<VolumeId>,
    /// Where the part of the volume begins.
    pub from: Bytes,
    /// Where it ends.
    pub until: Bytes,
    /// Which target.
    pub target: u16,
    /// Where its place on the target begins.
    pub base: Bytes,
    /// How large the place is. A request beyond its end wraps within it.
    pub room: Bytes,
    /// Positions in the part are multiplied by this.
    pub scale: f64,
}

/// Why a map is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// The trace has no such volume.
    #[error(
        "the map names volume '{name}', which the trace does not have\n  = help: it has {known}, \
         as far as it tells before it is read; a file in the native format names all volumes"
    )]
    UnknownVolume {
        /// The name in the map.
        name: String,
        /// The names of the trace's volumes.
        known: String,
    },
    /// There is no such target.
    #[error("the map names target '{name}', which is none of the {count} targets")]
    UnknownTarget {
        /// The name in the map.
        name: String,
        /// The number of targets.
        count: usize,
    },
    /// Two parts of one volume overlap: a request would have two places.
    #[error(
        "two routes of the map take the same part of volume {volume}\n  = help: give them \
         different parts with from= and length="
    )]
    PartsOverlap {
        /// The volume as it was named.
        volume: String,
    },
    /// Two places on one target overlap: parts that lay apart would fall onto each other.
    #[error(
        "two routes of the map share bytes {from} to {to} of target {target}\n  = help: give each \
         its place with to= and room="
    )]
    PlacesOverlap {
        /// The target, counted from 1.
        target: usize,
        /// Where the shared bytes begin.
        from: u64,
        /// Where they end.
        to: u64,
    },
    /// A place does not lie on its target, or not on its blocks.
    #[error(
        "the place of volume {volume} on target {target} ({room} at {base}) does not fit: the \
         target holds {capacity} in blocks of {block}\n  = help: choose to= and room= as multiples \
         of the block size, inside the target"
    )]
    NoPlace {
        /// The volume as it was named.
        volume: String,
        /// The target, counted from 1.
        target: usize,
        /// Where the place begins.
        base: Bytes,
        /// How large it is.
        room: Bytes,
        /// What the target holds.
        capacity: Bytes,
        /// Its block size.
        block: Bytes,
    },
}

/// Where every request of a trace goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map {
    routes: Vec<Route>,
    /// Targets that nothing goes to yet, the last one first: volumes that appear only while the
    /// trace is read take them in turn.
    spare: Vec<(u16, Bytes)>,
}

impl Map {
    /// The map of a trace without one: its volumes in turn on the targets. Volumes that share a
    /// target get equal areas of it side by side, as they were apart when they were recorded.
    pub fn spread(volumes: &[Volume], targets: &[TargetLimits]) -> Self {
        let count = targets.len().max(1);
        let mut routes = Vec::new();
        for (index, target) in targets.iter().enumerate() {
            let mine: Vec<&Volume> = volumes.iter().skip(index).step_by(count).collect();
            let sharing = mine.len() as u64;
            if mine.is_empty() {
                break;
            }
            let grain = target.block_size.0.max(1 << 20).min(target.capacity.0.max(1));
            let area = (target.capacity.0 / sharing / grain).max(1) * grain;
            let area = if sharing == 1 { target.capacity.0 } else { area };
            for (place, volume) in mine.iter().enumerate() {
                routes.push(Route {
                    volume: Some(volume.id),
                    from: Bytes::ZERO,
                    until: Bytes(u64::MAX),
                    target: index as u16,
                    base: Bytes(place as u64 * area),
                    room: Bytes(area),
                    scale: 1.0,
                });
            }
        }
        let spare = targets.iter().enumerate().skip(volumes.len()).rev();
        let spare = spare.map(|(index, limits)| (index as u16, limits.capacity)).collect();
        Self { routes, spare }
    }

    /// The map of one volume that lies on several targets, one part behind the other: each part
    /// goes to a target, from a place on, and has room for so many bytes.
    pub fn behind_each_other(parts: impl IntoIterator<Item = (u16, Bytes, Bytes)>) -> Self {
        let mut from = Bytes::ZERO;
        let routes = parts.into_iter().map(|(target, base, room)| {
            let until = Bytes(from.0.saturating_add(room.0));
            let begins = std::mem::replace(&mut from, until);
            Route { volume: None, from: begins, until, target, base, room, scale: 1.0 }
        });
        Self { routes: routes.collect(), spare: Vec::new() }
    }

    /// Gives a volume that the header does not name a target of its own, if one is left; answers
    /// the number of its route. If none is left it has no place, because separate volumes must not
    /// overlap.
    pub fn adopt(&mut self, volume: VolumeId) -> Option<usize> {
        if self.routes.iter().any(|route| route.volume == Some(volume)) {
            return None;
        }
        let (target, room) = self.spare.pop()?;
        self.routes.push(Route {
            volume: Some(volume),
            from: Bytes::ZERO,
            until: Bytes(u64::MAX),
            target,
            base: Bytes::ZERO,
            room,
            scale: 1.0,
        });
        Some(self.routes.len() - 1)
    }

    /// Resolves what a user wrote. `targets` are the names and limits of the targets.
    pub fn resolve(
        specs: &[RouteSpec],
        volumes: &[Volume],
        targets: &[(String, TargetLimits)],
    ) -> Result<Self, MapError> {
        let mut routes: Vec<Route> = Vec::new();
        for spec in specs {
            let volume = resolve_volume(&spec.volume, volumes)?;
            let target = resolve_target(&spec.target, targets)?;
            let capacity = targets[target].1.capacity;
            let room = spec.room.unwrap_or_else(|| {
                let on_target = specs.iter().filter(|other| {
                    resolve_target(&other.target, targets) == Ok(target) && other.to > spec.to
                });
                let end = on_target.map(|other| other.to).min().unwrap_or(capacity).min(capacity);
                Bytes(end.0.saturating_sub(spec.to.0))
            });
            routes.push(Route {
                volume,
                from: spec.from,
                until: spec
                    .length
                    .map_or(Bytes(u64::MAX), |length| Bytes(spec.from.0.saturating_add(length.0))),
                target: target as u16,
                base: spec.to,
                room,
                scale: spec.scale,
            });
        }
        let map = Self { routes, spare: Vec::new() };
        map.check(specs, targets)?;
        Ok(map)
    }

    fn check(
        &self,
        specs: &[RouteSpec],
        targets: &[(String, TargetLimits)],
    ) -> Result<(), MapError> {
        for (index, (route, spec)) in self.routes.iter().zip(specs).enumerate() {
            let limits = &targets[usize::from(route.target)].1;
            let block = limits.block_size;
            let fits = route.base.0.checked_add(route.room.0);
            if fits.is_none_or(|end| end > limits.capacity.0)
                || route.room < block
                || !(route.base.0 | route.room.0).is_multiple_of(block.0)
            {
                return Err(MapError::NoPlace {
                    volume: spec.volume.clone(),
                    target: usize::from(route.target) + 1,
                    base: route.base,
                    room: route.room,
                    capacity: limits.capacity,
                    block,
                });
            }
            for other in &self.routes[..index] {
                if other.volume == route.volume
                    && other.from < route.until
                    && route.from < other.until
                {
                    return Err(MapError::PartsOverlap { volume: spec.volume.clone() });
                }
                let from = route.base.0.max(other.base.0);
                let to = (route.base.0 + route.room.0).min(other.base.0 + other.room.0);
                if other.target == route.target && from < to {
                    let target = usize::from(route.target) + 1;
                    return Err(MapError::PlacesOverlap { target, from, to });
                }
            }
        }
        Ok(())
    }

    /// The routes, in the order of the map.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// The number of the route that a request at `offset` of `volume` takes, if any does.
    pub fn route(&self, volume: VolumeId, offset: Bytes) -> Option<usize> {
        self.routes_of(volume)
            .find(|(_, route)| (route.from..route.until).contains(&offset))
            .map(|(index, _)| index)
    }

    /// All routes of a volume with their numbers: those that name it, or else those for any.
    pub fn routes_of(&self, volume: VolumeId) -> impl Iterator<Item = (usize, &Route)> {
        let named = self.routes.iter().any(|route| route.volume == Some(volume));
        let wanted = named.then_some(volume);
        self.routes.iter().enumerate().filter(move |(_, route)| route.volume == wanted)
    }
}

fn resolve_volume(name: &str, volumes: &[Volume]) -> Result<Option<VolumeId>, MapError> {
    if name == "*" {
        return Ok(None);
    }
    let by_name = volumes.iter().find(|volume| volume.name == name);
    let by_number =
        || volumes.iter().find(|volume| name.parse().is_ok_and(|id: u32| id == volume.id.0));
    by_name.or_else(by_number).map(|volume| Some(volume.id)).ok_or_else(|| {
        let shown: Vec<String> = volumes.iter().take(20).map(shown).collect();
        let more = volumes.len().saturating_sub(20);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let known = format!("{}{more}", shown.join(", "));
        let known = if known.is_empty() { "no volumes with names".to_owned() } else { known };
        MapError::UnknownVolume { name: name.to_owned(), known }
    })
}

fn shown(volume: &Volume) -> String {
    if volume.name.is_empty() { volume.id.0.to_string() } else { volume.name.clone() }
}

fn resolve_target(name: &str, targets: &[(String, TargetLimits)]) -> Result<usize, MapError> {
    let by_name = targets.iter().position(|(target, _)| target == name);
    let by_number = || {
        let number: usize = name.parse().ok()?;
        (1..=targets.len()).contains(&number).then(|| number - 1)
    };
    by_name
        .or_else(by_number)
        .ok_or_else(|| MapError::UnknownTarget { name: name.to_owned(), count: targets.len() })
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.volume {
            Some(volume) => write!(f, "volume {}", volume.0)?,
            None => write!(f, "any other volume")?,
        }
        if self.from != Bytes::ZERO || self.until != Bytes(u64::MAX) {
            write!(f, " from {}", self.from)?;
            if self.until != Bytes(u64::MAX) {
                write!(f, " to {}", self.until)?;
            }
        }
        write!(f, " on target {} at {}", self.target + 1, self.base)?;
        write!(f, " in {}", self.room)?;
        if (self.scale - 1.0).abs() > f64::EPSILON {
            write!(f, ", positions times {}", self.scale)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(id: u32, name: &str) -> Volume {
        Volume { id: VolumeId(id), name: name.to_owned(), size: None }
    }

    fn limits(capacity: u64) -> TargetLimits {
        TargetLimits {
            capacity: Bytes(capacity),
            block_size: Bytes(512),
            length_max: Bytes(1 << 20),
            supports: ioecho_trace::Op::ALL.map(|_| true),
        }
    }

    fn resolve(lines: &[&str]) -> Result<Map, MapError> {
        let specs: Vec<RouteSpec> = lines.iter().map(|line| line.parse().unwrap()).collect();
        let targets =
            [("/dev/x".to_owned(), limits(1 << 30)), ("/dev/y".to_owned(), limits(1 << 20))];
        Map::resolve(&specs, &[volume(3, "sda"), volume(7, "sdb")], &targets)
    }

    #[test]
    fn a_line_names_what_it_wants_and_the_rest_has_defaults() {
        let spec: RouteSpec = "sda=sim:size=1G,units=2,from=1M,scale=0.5".parse().unwrap();
        assert_eq!((spec.volume.as_str(), spec.target.as_str()), ("sda", "sim:size=1G,units=2"));
        assert_eq!((spec.from, spec.length, spec.room), (Bytes(1 << 20), None, None));
        assert!((spec.scale - 0.5).abs() < 1e-12);
        for wrong in [
            "sda",
            "=x",
            "sda=",
            "a=b,from=x",
            "a=b,to=1,to=2",
            "a=b,lenth=1",
            "a=b,scale=0",
            "a=b,room=0",
        ] {
            assert!(wrong.parse::<RouteSpec>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn volumes_go_by_name_or_number_and_the_rest_where_the_star_says() {
        let map = resolve(&["sda=/dev/x,room=1M", "*=/dev/y"]).unwrap();
        assert_eq!(map.route(VolumeId(3), Bytes(9)), Some(0));
        assert_eq!(map.route(VolumeId(7), Bytes(9)), Some(1));
        assert_eq!(map.route(VolumeId(99), Bytes(9)), Some(1));
        let map = resolve(&["7=2"]).unwrap();
        assert_eq!(map.route(VolumeId(3), Bytes(0)), None);
        assert_eq!(map.routes()[0].target, 1);
    }

    #[test]
    fn a_volume_can_be_fanned_out_and_volumes_can_be_packed() {
        let map =
            resolve(&["sda=/dev/x,length=1M,to=4K", "sda=/dev/y,from=1M", "sdb=/dev/x,to=64K"])
                .unwrap();
        assert_eq!(map.route(VolumeId(3), Bytes((1 << 20) - 1)), Some(0));
        assert_eq!(map.route(VolumeId(3), Bytes(1 << 20)), Some(1));
        // Its place ends where the next one begins.
        assert_eq!(map.routes()[0].room, Bytes(60 << 10));
        assert_eq!(map.routes()[2].room, Bytes((1 << 30) - (64 << 10)));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let refused = |lines: &[&str]| resolve(lines).unwrap_err().to_string();
        assert!(refused(&["sdc=/dev/x"]).contains("it has sda, sdb"));
        assert!(refused(&["sda=/dev/z"]).contains("none of the 2 targets"));
        assert!(refused(&["sda=1", "sdb=1"]).contains("share bytes 0 to"));
        assert!(refused(&["sda=1,length=2M", "sda=2,from=1M"]).contains("same part"));
        assert!(refused(&["sda=2,room=2M"]).contains("does not fit"));
        assert!(refused(&["sda=2,to=100"]).contains("does not fit"));
    }

    #[test]
    fn a_volume_that_turns_up_late_takes_a_free_target_or_has_no_place() {
        let mut map = Map::spread(&[], &[limits(10 << 20), limits(4 << 20)]);
        assert_eq!(map.route(VolumeId(9), Bytes(0)), None);
        assert_eq!(map.adopt(VolumeId(9)), Some(0));
        assert_eq!(map.adopt(VolumeId(9)), None);
        assert_eq!(map.adopt(VolumeId(4)), Some(1));
        assert_eq!(map.adopt(VolumeId(5)), None);
        let targets: Vec<_> =
            map.routes().iter().map(|route| (route.volume, route.target)).collect();
        assert_eq!(targets, [(Some(VolumeId(9)), 0), (Some(VolumeId(4)), 1)]);
    }

    #[test]
    fn without_a_map_volumes_take_turns_and_share_a_target_side_by_side() {
        let volumes = [volume(0, "a"), volume(1, "b"), volume(2, "c")];
        let map = Map::spread(&volumes, &[limits(10 << 20), limits(4 << 20)]);
        let places: Vec<_> =
            map.routes()[..3].iter().map(|r| (r.volume, r.target, r.base, r.room)).collect();
        let megabytes = |n: u64| Bytes(n << 20);
        assert_eq!(places[0], (Some(VolumeId(0)), 0, Bytes(0), megabytes(5)));
        assert_eq!(places[1], (Some(VolumeId(2)), 0, megabytes(5), megabytes(5)));
        assert_eq!(places[2], (Some(VolumeId(1)), 1, Bytes(0), megabytes(4)));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[a-z*=,.0-9KMGT: -]{0,40}|\\PC{0,20}") {
            let _ = text.parse::<RouteSpec>();
        }

        #[test]
        fn what_is_accepted_keeps_places_apart_and_on_the_target(
            places in proptest::collection::vec((0_u64..3000, 0_u64..3000), 1..5),
        ) {
            let lines: Vec<String> = places
                .iter()
                .enumerate()
                .map(|(n, (to, room))| {
                    let (to, room) = (to / 2, room / 2 + 1);
                    format!("sda=2,from={n}M,length=1M,to={to}K,room={room}K")
                })
                .collect();
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            if let Ok(map) = resolve(&lines) {
                let mut places: Vec<_> =
                    map.routes().iter().map(|route| (route.base.0, route.room.0)).collect();
                places.sort_unstable();
                proptest::prop_assert!(places.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
                proptest::prop_assert!(places.iter().all(|(base, room)| base + room <= 1 << 20));
            }
        }
    }
}
