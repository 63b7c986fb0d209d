//! Latencies and delays in the orders in which blkreplay's pictures show them.
//!
//! A scatter plot of requests depends on its x axis. The scheduled instant (*setpoint*) shows the
//! demand, the instant of submission (*realtime*) the load that the device got, that of completion
//! (*completed*) its results, and the number of the request (*points*) gives every request the same
//! room, in bursts and pauses alike. The picture of a run holds one of them; all four are made
//! here, at extra cost.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ioecho_trace::{Batch, Nanos, Op, Outcome, Request};
use rustc_hash::FxHashMap;

use crate::analysis::shape::{Axis, Grid, Quantity, Scale, Series};
use crate::picture::Class;
use crate::raster::{self, LOWEST_NS, ROWS, ROWS_PER_DECADE, Raster};
use crate::timeline::{Cell, FINEST_NS, Timeline};

/// The x axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The instant of submission.
    Realtime,
    /// The scheduled instant.
    Setpoint,
    /// The instant of completion.
    Completed,
    /// The number of the request.
    Points,
}

impl Order {
    /// Every order, as graph.sh numbers its pictures.
    pub const ALL: [Self; 4] = [Self::Realtime, Self::Setpoint, Self::Completed, Self::Points];
}

/// Requests in a second and those of them that are turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Turned {
    requests: u64,
    turns: u64,
}

impl Cell for Turned {
    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.turns += other.turns;
    }
}

/// Completions that wait for their turn at most; beyond, the earliest is taken as it is.
const WAITING_MAX: usize = 1 << 20;

/// Reads, writes, and both.
const KINDS: [&str; 3] = ["reads", "writes", "all"];

/// Rasters in all orders, and turns in the order of completion. Unlike the other summaries it
/// needs the whole trace in its order: numbers of requests do not merge.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    latency: [[Raster; Class::COUNT]; Order::ALL.len()],
    delay: [[Raster; Class::COUNT]; Order::ALL.len()],
    requests: i64,
    longest: [Nanos; 2],
    /// Completions that others may still precede: instant, volume, kind, offset.
    waiting: BinaryHeap<Reverse<(i64, u32, usize, u64)>>,
    before: FxHashMap<(u32, usize), u64>,
    turns: [Timeline<Turned>; KINDS.len()],
}

impl Orders {
    /// Adds the requests of a batch: of a run what was measured, of a load what was recorded.
    pub fn observe(&mut self, batch: &Batch) {
        for request in batch.iter() {
            self.add(&request);
        }
    }

    fn add(&mut self, request: &Request) {
        let number = Nanos(self.requests.saturating_mul(FINEST_NS));
        self.requests = self.requests.saturating_add(1);
        let (scheduled, submitted, completed, pushed_back) = if let Some(measured) =
            &request.measured
        {
            let done = measured.outcome == Outcome::Ok;
            let completed = measured.completed.filter(|_| done);
            (measured.scheduled, measured.submitted, completed, measured.pushed_back)
        } else {
            let completed = request.latency.map(|latency| request.issue.saturating_add(latency));
            (request.issue, Some(request.issue), completed, false)
        };
        let Some(submitted) = submitted else { return };
        let class = Class::of(request.op, pushed_back).index();
        let measured = request.measured.is_some();
        if measured {
            let delay = submitted.saturating_sub(scheduled);
            self.longest[1] = self.longest[1].max(delay);
            let row = raster::row(delay);
            self.delay[Order::Setpoint as usize][class].at(scheduled).record_row(row);
            self.delay[Order::Points as usize][class].at(number).record_row(row);
        }
        let Some(completed) = completed else { return };
        let latency = completed.saturating_sub(submitted);
        self.longest[0] = self.longest[0].max(latency);
        let row = raster::row(latency);
        for (order, instant) in
            Order::ALL.into_iter().zip([submitted, scheduled, completed, number])
        {
            self.latency[order as usize][class].at(instant).record_row(row);
        }
        let kind = match request.op {
            Op::Read => 0,
            Op::Write => 1,
            _ => return,
        };
        // A clock that stepped back makes completions before submissions; nothing is earlier then.
        let completed = completed.max(submitted).0;
        self.waiting.push(Reverse((completed, request.volume.0, kind, request.offset.0)));
        // What is issued from here on completes no earlier than now.
        while let Some(Reverse((at, ..))) = self.waiting.peek() {
            if *at > submitted.0 && self.waiting.len() <= WAITING_MAX {
                break;
            }
            self.turn();
        }
    }

    /// Takes the earliest completion that waits.
    fn turn(&mut self) {
        let Some(Reverse((at, volume, kind, offset))) = self.waiting.pop() else { return };
        for kind in [kind, 2] {
            let before = self.before.insert((volume, kind), offset);
            let cell = self.turns[kind].at(Nanos(at));
            cell.requests += 1;
            cell.turns += u64::from(before.is_some_and(|before| offset < before));
        }
    }

    /// The longest latency, and the largest delay.
    pub fn longest(&self) -> [Nanos; 2] {
        self.longest
    }

    /// Latencies in an order, a map for each class; along run nanoseconds, or requests.
    pub fn latency(&self, order: Order) -> Vec<(Class, Grid)> {
        grids(&self.latency[order as usize], order, "service time")
    }

    /// Delays in an order; there are those by the scheduled instant and by the request's number.
    pub fn delay(&self, order: Order) -> Vec<(Class, Grid)> {
        grids(&self.delay[order as usize], order, "lateness")
    }

    /// The share of requests, in the order of their completion, that begin before the one completed
    /// before them on the same volume (blkreplay's g43), by second: reads, writes and both.
    pub fn turns(&mut self) -> Vec<Series> {
        while !self.waiting.is_empty() {
            self.turn();
        }
        let one = |(name, turns): (&str, &Timeline<Turned>)| {
            let width = turns.width().0;
            let join = (1_000_000_000 / width).max(1) as usize;
            let share = |cells: &[Turned]| {
                let mut sum = Turned::default();
                for cell in cells {
                    sum.merge(cell);
                }
                (sum.requests > 0).then(|| sum.turns as f64 / sum.requests as f64)
            };
            Series {
                name: name.to_owned(),
                quantity: Quantity::new("turns", "1"),
                start_ns: 0,
                step_ns: width.saturating_mul(join as i64),
                values: turns.cells().chunks(join).map(share).collect(),
            }
        };
        KINDS.into_iter().zip(&self.turns).map(one).collect()
    }
}

fn grids(rasters: &[Raster; Class::COUNT], order: Order, what: &str) -> Vec<(Class, Grid)> {
    // Maps that are drawn over each other have the same cells.
    let widest = rasters.iter().map(Timeline::doublings).max().unwrap_or(0);
    let one = |class: Class| {
        let mut raster = rasters[class.index()].clone();
        raster.widen_to(widest);
        let (quantity, step) = if order == Order::Points {
            (Quantity::new("request", "1"), (raster.width().0 / FINEST_NS) as f64)
        } else {
            (Quantity::new("time", "ns"), raster.width().0 as f64)
        };
        let filled = raster.filled();
        let cells = filled.map(|(x, y, count)| (x as u32, y as u32, u64::from(count))).collect();
        let grid = Grid {
            name: class.name().to_owned(),
            x: Axis {
                quantity,
                scale: Scale::Linear { from: 0.0, step },
                cells: raster.cells().len() as u32,
            },
            y: Axis {
                quantity: Quantity::new(what, "ns"),
                scale: Scale::Logarithmic {
                    lowest: LOWEST_NS as f64,
                    per_decade: ROWS_PER_DECADE as u32,
                },
                cells: ROWS as u32,
            },
            cells,
        };
        (class, grid)
    };
    Class::ALL.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::{Bytes, Columns, Measured};

    fn run(requests: &[(i64, i64, i64, u64)]) -> Orders {
        let mut batch = Batch::new(Columns {
            latency: false,
            origin: false,
            measured: true,
            dependencies: false,
        });
        for (scheduled, submitted, completed, offset) in requests {
            let mut request = Request::new(Nanos(*scheduled), Op::Read, Bytes(*offset), Bytes(512));
            request.measured =
                Some(Measured::done(Nanos(*scheduled), Nanos(*submitted), Nanos(*completed)));
            batch.push(&request);
        }
        let mut orders = Orders::default();
        orders.observe(&batch);
        orders
    }

    const MS: i64 = 1_000_000;

    #[test]
    fn each_order_has_the_request_where_it_belongs() {
        let orders = run(&[(0, 0, MS, 0), (MS, 3 * MS, 9 * MS, 0)]);
        let columns = |order| -> Vec<u32> {
            orders.latency(order)[0].1.cells.iter().map(|cell| cell.0).collect()
        };
        assert_eq!(columns(Order::Setpoint), [0, 1]);
        assert_eq!(columns(Order::Realtime), [0, 3]);
        assert_eq!(columns(Order::Completed), [1, 9]);
        assert_eq!(columns(Order::Points), [0, 1]);
        assert_eq!(orders.delay(Order::Setpoint)[0].1.cells.len(), 2);
        assert_eq!(orders.longest(), [Nanos(6 * MS), Nanos(2 * MS)]);
    }

    #[test]
    fn turns_are_counted_in_the_order_of_completion() {
        // Issued 0, 8, 16 they never turn; completed 16, 0, 8 they turn once.
        let mut orders = run(&[(0, 0, 5 * MS, 0), (1, 1, 6 * MS, 8), (2, 2, 3 * MS, 16)]);
        let all = orders.turns().pop().unwrap();
        assert_eq!(all.values, [Some(1.0 / 3.0)]);
    }

    #[test]
    fn a_clock_that_steps_back_and_endless_instants_are_counted() {
        let mut orders =
            run(&[(5, 9, 1, 3), (i64::MAX, i64::MAX, i64::MAX, u64::MAX), (0, -7, 0, 0)]);
        assert_eq!(orders.latency(Order::Completed)[0].1.cells.iter().map(|c| c.2).sum::<u64>(), 3);
        assert!(orders.turns().len() == 3);
        assert!(Orders::default().turns()[0].values.is_empty());
    }
}
