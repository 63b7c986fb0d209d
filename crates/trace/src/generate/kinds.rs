//! The kinds of artificial loads, and the settings that each has besides the common ones.

use super::bursts::Bursts;
use super::model::Model;
use super::place::{Area, Places, Scatter};
use super::random::{Random, Share, scramble};
use super::settings::{Mix, Reads, Settings, yes};
use super::source::{Requests, Simple, told, when};
use super::zipf::Zipf;
use super::{Kind, Load};
use crate::arguments::{ArgumentError, Arguments};
use crate::units::Bytes;

/// Every kind, in the order in which they are listed for people.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "random",
        help: "Anywhere in the area; seek=PERCENT of the requests if not all, as Vdbench's \
               seekpct: the others follow the one before",
        parse: random,
    },
    Kind {
        name: "sequential",
        help: "One after the other; wraps at the end of the area, or ends there with end=stop; \
               begins anywhere with start=any",
        parse: sequential,
    },
    Kind {
        name: "mixed",
        help: "sequential=PERCENT of the requests follow the one before, the others go anywhere",
        parse: mixed,
    },
    Kind {
        name: "strided",
        help: "stride=SIZE from one request to the next; each turn begins one request further; \
               stride=SIZE-SIZE by chance between two",
        parse: strided,
    },
    Kind {
        name: "zipf",
        help: "Places by Zipf's law with theta=EXPONENT, scattered over the area, or the hottest \
               first with scatter=no",
        parse: zipf,
    },
    Kind {
        name: "hotspot",
        help: "accesses=PERCENT of the requests to space=PERCENT of the area, which begins at \
               at=PERCENT of it",
        parse: hotspot,
    },
    Kind {
        name: "streams",
        help: "streams=N sequential streams at once, each in its part of the area",
        parse: streams,
    },
    Kind {
        name: "bursts",
        help: "blkreplay's linear bursts: every=TIME a burst of slope=N requests more than before, \
               gap=TIME apart, the first of first=N",
        parse: bursts,
    },
    Kind {
        name: "model",
        help: "A mix of operations, sizes, sequences and reuse as a fit estimates it",
        parse: model,
    },
];

/// The common settings, checked against each other.
struct Frame {
    settings: Settings,
    mix: Mix,
    area: Area,
    /// What caches are to hold.
    held: Area,
}

impl Frame {
    fn parse(
        arguments: &mut Arguments<'_>,
        reads: Reads,
        size: &str,
    ) -> Result<Self, ArgumentError> {
        let settings = Settings::parse(arguments)?;
        let mix = Mix::parse(arguments, reads, size)?;
        let align = settings.align.unwrap_or_else(|| mix.sizes.alignment());
        // What caches are to hold lies at the beginning; the kinds choose from the rest.
        let held = mix.hits.map_or(0, |hits| hits.area);
        let rest = settings.area.checked_sub(held).filter(|rest| *rest >= mix.sizes.largest());
        if mix.hits.is_some()
            && (rest.is_none() || held < mix.sizes.largest() || !held.is_multiple_of(align))
        {
            return Err(ArgumentError::new(
                "hit-area: it is a multiple of the alignment, and it and the rest of the area \
                 each hold the largest request",
            ));
        }
        // The borders of what is behind the part that caches hold.
        let behind = settings.borders.iter().filter_map(|border| border.checked_sub(held));
        let borders = behind.filter(|border| *border > 0).collect();
        let area = Area { size: rest.unwrap_or(settings.area), align, borders };
        let of_held: Vec<u64> =
            settings.borders.iter().copied().filter(|border| *border < held).collect();
        let held = Area { size: held, align, borders: of_held };
        let holds = |area: &Area| area.holds_in_each_part(mix.sizes.largest());
        if !holds(&area) || mix.hits.is_some() && !holds(&held) {
            return Err(ArgumentError::new(
                "area: each of its parts is a multiple of the alignment and holds the largest \
                 request, in the hit-area and behind it",
            ));
        }
        if mix.sizes.largest() > area.size {
            let (area, largest) = (Bytes(area.size), Bytes(mix.sizes.largest()));
            let text = format!("area: {area} do not hold the largest request, {largest}");
            return Err(ArgumentError::new(text));
        }
        Ok(Self { settings, mix, area, held })
    }

    fn usual(arguments: &mut Arguments<'_>) -> Result<Self, ArgumentError> {
        Self::parse(arguments, Reads::Share(Share::ALWAYS), "4k")
    }

    fn load(self, what: &str, places: Places) -> Load {
        let Self { settings, mix, area, held } = self;
        let told = format!("{what} {}", told(&settings, &when(&settings)));
        Load { settings, requests: Requests::Simple(Simple::new(area, held, places, mix)), told }
    }
}

fn seeking(seek: Share, stops: bool) -> Places {
    Places::Seek { seek, next: Some(0), stops }
}

fn percent(share: Share) -> String {
    format!("{:.1} %", share.as_fraction() * 100.0)
}

fn random(arguments: &mut Arguments<'_>) -> Result<Load, ArgumentError> {
    let seek = arguments.setting("seek")?.unwrap_or(Share::ALWAYS);
    let frame = Frame::usual(arguments)?;
    let what = match seek {
        Share::ALWAYS => "random".to_owned(),
        seek => format!("sequential with {} seeks", percent(seek)),
    };
    Ok(frame.load(&what, seeking(seek, false)))
}

fn sequential(arguments: &mut Arguments<'_>) -> Result<Load, ArgumentError> {
    let stops = arguments.choice("end", &[("wrap", false), ("stop", true)])?.unwrap_or(false);
    let anywhere = arguments.choice("start", &[("zero", false), ("any", true)])?;
    let places = match anywhere {
        Some(true) => Places::Seek { seek: Share::NEVER, next: None, stops },
        _ => seeking(Share::NEVER, stops),
    };
    Ok(Frame::usual(arguments)?.load("sequential", places))
}

fn mixed(arguments: &mut Arguments<'_>) -> Result<Load, ArgumentError> {
    let sequential = arguments.setting("sequential")?.unwrap_or(Share::HALF);
    let what = format!("{} sequential, the rest random", percent(sequential));
    let seek = match sequential {
        Share::ALWAYS => Share::NEVER,
        Share::NEVER => Share::ALWAYS,
        share => share.complement(),
    };
    Ok(Frame::usual(arguments)?.load(&what, seeking(seek, false)))
}

fn strided(arguments: &mut Arguments<'_>) -> Result<Load, ArgumentError> {
    let text = arguments.setting::<String>("stride")?.unwrap_or_else(|| "1M".to_owned());
    let frame = Frame::usual(arguments)?;
    let one = |text: &str| match text.parse::<Bytes>() {
        Ok(stride) if stride.0 > 0 && stride.0.is_multiple_of(frame.area.align) => Ok(stride),
        Ok(stride) => {
            let align = Bytes(frame.area.align);
            let text = format!("stride: {stride} is not a multiple of the alignment, {align}");
            Err(ArgumentError::new(text))
        }
        Err(error) => Err(ArgumentError::new(format!("stride: '{text}': {error}"))),
    };
    if let Some((least, most)) = text.split_once('-') {
        let (least, most) = (one(least)?, one(most)?);
        if most < least {
            return Err(ArgumentError::new("stride: the range ends before it begins"));
        }
        let what = format!("forwards by {least} to {most}");
        let places = Places::Skip { least: least.0, most: most.0, next: 0 };
        return Ok(frame.load(&what, places));
    }
    let stride = one(&text)?;
    let what = format!("strided by {stride}");
    Ok(frame.load(&what, Places::Stride { stride: stride.0, next: 0, turn: 0 }))
}

fn zipf(arguments: &mut Arguments<'_>) -> Result<Load, ArgumentError> {
    let theta = arguments.setting("theta")?.unwrap_or(0.99);
    if !(0.01..=5.0).contains(&theta) {
        return Err(ArgumentError::new("theta: an exponent between 0.01 and 5 makes sense"));
    }
    let scatters = yes(arguments, "scatter")?.unwrap_or(true);
    let frame = Frame::usual(arguments)?;
    let count = frame.area.places(frame.area.align.min(frame.area.size));
    let mut random = Random::new(scramble(frame.settings.seed));
    let scatter = scatters.then(|| Scatter::new(count, &mut random));
    let places = Places::Zipf { zipf: Zipf::new(count, theta), scatter, unit: frame.area.align };
    Ok(frame.load(&format!("Zipf of exponent {theta}"), places))
}

fn hotspot(arguments: &mut Arguments<'_>) -> Result<Load, ArgumentError> {
    let accesses = arguments.setting("accesses")?.unwrap_or(Share::from_fraction(0.8));
    let space = arguments.setting("space")?.unwrap_or(Share::from_fraction(0.2));
    let at = arguments.setting("at")?.unwrap_or(Share::NEVER);
    let frame = Frame::usual(arguments)?;
    let of_area = |share: Share| {
        let part = (u128::from(frame.area.size) * u128::from(share.threshold())) >> 64;
        part as u64 & !(frame.area.align - 1)
    };
    let size = of_area(space).max(frame.area.align);
    if size < frame.mix.sizes.largest() || frame.area.size - size < frame.mix.sizes.largest() {
        return Err(ArgumentError::new(
            "space: neither the hot part nor the rest may be smaller than the largest request",
        ));
    }
    let from = of_area(at).min((frame.area.size - size) & !(frame.area.align - 1));
    let what = format!("{} of requests to {} of the area,", percent(accesses), percent(space));
    Ok(frame.load(&what, Places::Hotspot { accesses, from, size }))
}

fn streams(arguments: &mut Arguments<'_>) -> Result<Load, ArgumentError> {
    let streams: u64 = arguments.setting("streams")?.unwrap_or(8);
    if !(1..=65_536).contains(&streams) {
        return Err(ArgumentError::new("streams: between 1 and 65536 make sense"));
    }
    let frame = Frame::usual(arguments)?;
    let part = (frame.area.size / streams) & !(frame.area.align - 1);
    if part < frame.mix.sizes.largest() {
        let area = Bytes(frame.area.size);
        let text = format!("streams: {area} do not hold the largest request {streams} times");
        return Err(ArgumentError::new(text));
    }
    let next = (0..streams).map(|stream| stream * part).collect();
    Ok(frame.load(&format!("{streams} sequential streams"), Places::Streams { next, part }))
}

fn bursts(arguments: &mut Arguments<'_>) -> Result<Load, ArgumentError> {
    let bursts = Bursts::parse(arguments)?;
    let Frame { settings, mix, area, held } = Frame::parse(arguments, Reads::Alternate, "1k")?;
    let told = format!("random {}", told(&settings, &bursts.told()));
    let simple = Simple::new(area, held, seeking(Share::ALWAYS, false), mix);
    Ok(Load { settings, requests: Requests::Bursts(simple, bursts), told })
}

fn model(arguments: &mut Arguments<'_>) -> Result<Load, ArgumentError> {
    let settings = Settings::parse(arguments)?;
    let model = Model::parse(arguments, &settings)?;
    let told = format!("a fitted mix {}", told(&settings, &when(&settings)));
    Ok(Load { settings, requests: Requests::Model(Box::new(model)), told })
}
