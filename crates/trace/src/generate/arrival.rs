//! The instants at which generated requests are issued.
//!
//! Storage sees bursts at every scale of time, and a load with the right rate and the wrong
//! arrivals tests something else. So the arrival process is a setting of its own, `dist`: constant,
//! Poisson, on and off, self-similar by superposed sources, or a cascade that keeps the burstiness
//! of each scale.
//!
//! Instants are integer sums of nanoseconds; the fraction of a random gap is carried over to the
//! next.

mod cascade;
mod changing;
mod rate;
mod sources;

use self::cascade::Cascade;
pub(super) use self::changing::Changing;
pub(super) use self::rate::Rate;
use self::sources::Sources;
use super::random::Random;
use crate::arguments::{ArgumentError, Arguments};
use crate::units::Nanos;

/// The processes, as they are listed for people.
const KNOWN: &str = "constant, poisson, uniform, onoff(on=TIME,off=TIME), \
                     self-similar(hurst=H,sources=N,on=TIME,off=TIME), cascade(bias=B:B…)";

/// The bias of a cascade that is not given: that of the disk traffic in Wang et al. 2002, Table 1.
const BIAS: f64 = 0.7;

/// The number of halvings of a cascade with one bias: from an hour down to milliseconds.
const LEVELS: usize = 20;

/// The span of an endless cascade's block.
const BLOCK: Nanos = Nanos::from_secs(3600);

/// An arrival process, as it was asked for.
#[derive(Clone, Debug)]
pub(super) enum Process {
    Constant,
    Poisson,
    Uniform,
    Sources { hurst: Option<f64>, sources: u32, on: Nanos, off: Nanos },
    Cascade { biases: Vec<f64> },
}

impl Process {
    /// The process in `text`: a name, and settings in brackets.
    pub(super) fn parse(text: &str) -> Result<Self, ArgumentError> {
        let (name, settings) = match text.split_once('(') {
            None => (text, ""),
            Some((name, rest)) => (
                name,
                rest.strip_suffix(')').ok_or_else(|| {
                    ArgumentError::new(format!("dist: '{text}' lacks its closing bracket"))
                })?,
            ),
        };
        let within = |error: ArgumentError| ArgumentError::new(format!("dist: {name}: {error}"));
        let mut arguments = Arguments::new(settings, ',').map_err(within)?;
        let process = Self::of_name(name.trim(), &mut arguments).map_err(within)?;
        arguments.finish().map_err(within)?;
        process.ok_or_else(|| {
            ArgumentError::new(format!("dist: '{text}' is not known; known are {KNOWN}"))
        })
    }

    fn of_name(name: &str, arguments: &mut Arguments<'_>) -> Result<Option<Self>, ArgumentError> {
        Ok(Some(match name {
            "constant" => Self::Constant,
            "poisson" => Self::Poisson,
            "uniform" => Self::Uniform,
            "onoff" | "on-off" => Self::Sources {
                hurst: None,
                sources: in_range(arguments.setting("sources")?, "sources", 1, 1, 4096)?,
                on: span(arguments.setting("on")?, "on", Nanos::from_millis(100))?,
                off: span(arguments.setting("off")?, "off", Nanos::from_millis(900))?,
            },
            "self-similar" | "selfsimilar" => Self::Sources {
                hurst: Some(in_range(arguments.setting("hurst")?, "hurst", 0.8, 0.501, 0.999)?),
                sources: in_range(arguments.setting("sources")?, "sources", 8, 1, 4096)?,
                on: span(arguments.setting("on")?, "on", Nanos::from_millis(100))?,
                off: span(arguments.setting("off")?, "off", Nanos::from_millis(900))?,
            },
            "cascade" => Self::Cascade { biases: biases(arguments)? },
            _ => return Ok(None),
        }))
    }

    /// The process in words.
    pub(super) fn told(&self) -> String {
        match self {
            Self::Constant => "at equal distances".to_owned(),
            Self::Poisson => "as a Poisson process".to_owned(),
            Self::Uniform => "at distances between nothing and twice the mean".to_owned(),
            Self::Sources { hurst: None, sources, on, off } => {
                format!(
                    "from {sources} source(s) that are on for {on} and off for {off} on average"
                )
            }
            Self::Sources { hurst: Some(hurst), sources, .. } => {
                format!("self-similar (Hurst {hurst}) from {sources} on-off sources")
            }
            Self::Cascade { biases } => {
                format!("as a cascade of biased halvings over {} scales", biases.len())
            }
        }
    }
}

fn in_range<T: PartialOrd + Copy + std::fmt::Display>(
    value: Option<T>,
    name: &str,
    default: T,
    least: T,
    most: T,
) -> Result<T, ArgumentError> {
    match value {
        None => Ok(default),
        Some(value) if value >= least && value <= most => Ok(value),
        Some(value) => Err(ArgumentError::new(format!(
            "{name}: {value} does not lie between {least} and {most}"
        ))),
    }
}

fn span(value: Option<Nanos>, name: &str, default: Nanos) -> Result<Nanos, ArgumentError> {
    match value {
        None => Ok(default),
        Some(span) if span > Nanos::ZERO => Ok(span),
        Some(_) => Err(ArgumentError::new(format!("{name} must be longer than nothing"))),
    }
}

fn biases(arguments: &mut Arguments<'_>) -> Result<Vec<f64>, ArgumentError> {
    let levels: Option<usize> = arguments.setting("levels")?;
    let text = arguments.setting::<String>("bias")?;
    let text = text.unwrap_or_else(|| BIAS.to_string());
    let mut biases = Vec::new();
    for part in text.split(':') {
        match part.trim().parse::<f64>() {
            Ok(bias) if (0.5..=1.0).contains(&bias) => biases.push(bias),
            _ => {
                let text = format!("bias: '{part}' is not a number from 0.5 to 1");
                return Err(ArgumentError::new(text));
            }
        }
    }
    match (biases[..].len(), levels) {
        (_, Some(levels)) if !(1..=62).contains(&levels) => {
            return Err(ArgumentError::new("levels: between 1 and 62 make sense"));
        }
        (1, levels) => biases = vec![biases[0]; levels.unwrap_or(LEVELS)],
        (_, Some(_)) => {
            return Err(ArgumentError::new(
                "levels are counted from the biases where there are several",
            ));
        }
        (count, None) if count > 62 => {
            return Err(ArgumentError::new("bias: more than 62 levels make no sense"));
        }
        _ => {}
    }
    Ok(biases)
}

/// The instants, one after the other, never stepping back.
#[derive(Clone, Debug)]
pub(super) enum Arrivals {
    Constant(rate::Steps),
    Poisson {
        mean_ns: f64,
        at: Drift,
    },
    /// Gaps of a uniform distribution.
    Uniform {
        mean_ns: f64,
        at: Drift,
    },
    Rising(rate::Rising),
    Changing(Box<changing::Course>),
    Sources(Box<Sources>),
    Cascade(Box<Cascade>),
    /// blkreplay's artificial loads, by [`super::bursts`].
    Bursts(super::bursts::Bursts),
}

impl Arrivals {
    /// The arrivals of `process` at `rate`. `duration` and `count` are those of the load, as far as
    /// they are limited.
    pub(super) fn new(
        process: &Process,
        rate: &Rate,
        changing: Option<&Changing>,
        duration: Option<Nanos>,
        count: Option<u64>,
        random: &mut Random,
    ) -> Result<Self, ArgumentError> {
        if let Some(changing) = changing {
            return Ok(Self::Changing(Box::new(changing.course(process)?)));
        }
        if let Some(rising) = rate.rising() {
            let poisson = match process {
                Process::Constant => false,
                Process::Poisson => true,
                _ => {
                    return Err(ArgumentError::new(
                        "rate: a rate that changes goes with dist=constant or dist=poisson only",
                    ));
                }
            };
            let Some(duration) = duration else {
                return Err(ArgumentError::new(
                    "rate: a rate that changes needs a duration over which it does",
                ));
            };
            return Ok(Self::Rising(rate::Rising::new(rising, duration, poisson)));
        }
        let mean_ns = rate.mean_gap_ns();
        Ok(match process {
            Process::Constant => Self::Constant(rate.steps()),
            Process::Poisson => Self::Poisson { mean_ns, at: Drift::default() },
            Process::Uniform => Self::Uniform { mean_ns, at: Drift::default() },
            Process::Sources { hurst, sources, on, off } => {
                Self::Sources(Box::new(Sources::new(*hurst, *sources, *on, *off, mean_ns, random)))
            }
            Process::Cascade { biases } => {
                let (span, repeats) = match (duration, count) {
                    (Some(duration), _) => (duration, false),
                    (None, Some(count)) => (Nanos((mean_ns * count as f64) as i64), false),
                    (None, None) => (BLOCK, true),
                };
                Self::Cascade(Box::new(Cascade::new(biases, span, mean_ns, repeats)))
            }
        })
    }

    /// Puts the next instants in nanoseconds into `instants`, which is empty: `rows` of them, fewer
    /// if there are no more before `end`.
    pub(super) fn fill(
        &mut self,
        instants: &mut Vec<i64>,
        rows: usize,
        end: i64,
        random: &mut Random,
    ) {
        let next = |next: Option<i64>| next.filter(|instant| *instant < end);
        match self {
            Self::Constant(steps) => {
                instants.extend((0..rows).map_while(|_| next(steps.next())));
            }
            Self::Poisson { mean_ns, at } => {
                instants.extend(
                    (0..rows).map_while(|_| next(at.advance(*mean_ns * random.exponential()))),
                );
            }
            Self::Uniform { mean_ns, at } => {
                instants.extend(
                    (0..rows).map_while(|_| next(at.advance(2.0 * *mean_ns * random.unit()))),
                );
            }
            Self::Changing(course) => {
                instants.extend((0..rows).map_while(|_| next(course.next(random))));
            }
            Self::Rising(rising) => {
                instants.extend((0..rows).map_while(|_| next(rising.next(random))));
            }
            Self::Sources(sources) => {
                instants.extend((0..rows).map_while(|_| next(sources.next(random))));
            }
            Self::Cascade(cascade) => {
                instants.extend((0..rows).map_while(|_| next(cascade.next(random))));
            }
            Self::Bursts(bursts) => {
                instants.extend((0..rows).map_while(|_| next(bursts.next())));
            }
        }
    }
}

/// An instant that moves by gaps with fractions of a nanosecond.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drift {
    now: i64,
    /// The fraction of a nanosecond beyond `now`, in [0, 1).
    carry: f64,
}

impl Drift {
    /// Moves on by `gap_ns` and answers the instant; `None` at the end of time.
    #[inline]
    pub(super) fn advance(&mut self, gap_ns: f64) -> Option<i64> {
        let gap = gap_ns + self.carry;
        let whole = gap as i64;
        self.carry = gap - whole as f64;
        self.now = self.now.checked_add(whole)?;
        Some(self.now)
    }

    /// Moves to `instant`, which is not before.
    pub(super) fn move_to(&mut self, instant: i64) {
        self.now = instant;
        self.carry = 0.0;
    }

    pub(super) fn now(&self) -> i64 {
        self.now
    }
}

#[cfg(test)]
mod tests;
