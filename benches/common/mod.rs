//! Interleaved rounds, medians, ratios, a table and JSON.

use std::time::Duration;

/// One thing to time; the closure measures itself.
pub struct Arm<'a> {
    name: &'static str,
    once: Box<dyn FnMut() -> Duration + 'a>,
}

impl<'a> Arm<'a> {
    /// An arm under a name that [`Outcome::ratio`] knows it by.
    pub fn new(name: &'static str, once: impl FnMut() -> Duration + 'a) -> Arm<'a> {
        Arm {
            name,
            once: Box::new(once),
        }
    }
}

/// How often, and how it is shown.
pub struct Bench {
    name: &'static str,
    rounds: usize,
    json: bool,
}

impl Bench {
    /// Reads `--rounds N` and `--json`; without `--bench`, which `cargo bench`
    /// passes, three rounds only show that it runs.
    pub fn from_args(name: &'static str, rounds: usize) -> Bench {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let asked = words
            .iter()
            .position(|word| word == "--rounds")
            .and_then(|at| words.get(at + 1))
            .map(|number| number.parse().expect("--rounds takes a number"));
        let usual = if words.iter().any(|word| word == "--bench") {
            rounds
        } else {
            3
        };
        Bench {
            name,
            rounds: asked.unwrap_or(usual),
            json: words.iter().any(|word| word == "--json"),
        }
    }

    /// Times every arm once a round, in an order that moves on by one.
    pub fn run(&self, mut arms: Vec<Arm<'_>>) -> Outcome {
        let count = arms.len();
        let mut times = vec![Vec::with_capacity(self.rounds); count];
        // Caches warm, lazy binding done: not counted.
        for arm in &mut arms {
            for _ in 0..3 {
                (arm.once)();
            }
        }
        for round in 0..self.rounds {
            for position in 0..count {
                let at = (round + position) % count;
                times[at].push((arms[at].once)());
            }
        }
        let medians = arms
            .iter()
            .zip(&mut times)
            .map(|(arm, times)| {
                times.sort_unstable();
                Median {
                    name: arm.name,
                    median: times[times.len() / 2],
                    p10: times[times.len() / 10],
                    p90: times[times.len() * 9 / 10],
                }
            })
            .collect();
        Outcome {
            bench: self.name,
            rounds: self.rounds,
            json: self.json,
            medians,
            ratios: Vec::new(),
            facts: Vec::new(),
        }
    }
}

struct Median {
    name: &'static str,
    median: Duration,
    p10: Duration,
    p90: Duration,
}

struct Ratio {
    of: &'static str,
    to: &'static str,
    ratio: f64,
    most: Option<f64>,
}

/// What was measured.
pub struct Outcome {
    bench: &'static str,
    rounds: usize,
    json: bool,
    medians: Vec<Median>,
    ratios: Vec<Ratio>,
    facts: Vec<(&'static str, f64, Option<f64>)>,
}

impl Outcome {
    fn median(&self, name: &str) -> Option<Duration> {
        self.medians
            .iter()
            .find(|median| median.name == name)
            .map(|median| median.median)
    }

    /// `of` as a multiple of `to`, with the most that is promised; nothing
    /// where one of the two was skipped.
    pub fn ratio(&mut self, of: &'static str, to: &'static str, most: Option<f64>) {
        if let (Some(a), Some(b)) = (self.median(of), self.median(to)) {
            self.ratios.push(Ratio {
                of,
                to,
                ratio: a.as_secs_f64() / b.as_secs_f64(),
                most,
            });
        }
    }

    /// A figure that is no time, with the most that is promised.
    pub fn fact(&mut self, name: &'static str, value: f64, most: Option<f64>) {
        self.facts.push((name, value, most));
    }

    /// Prints the table, and one line of JSON when it was asked for.
    pub fn finish(self) {
        println!("{} rounds, interleaved; medians", self.rounds);
        for median in &self.medians {
            println!(
                "  {:<18} {:>9.1} us   (p10 {:.1}, p90 {:.1})",
                median.name,
                micros(median.median),
                micros(median.p10),
                micros(median.p90)
            );
        }
        for ratio in &self.ratios {
            println!(
                "  {:<34} {:>7.2} times{}",
                format!("{} / {}", ratio.of, ratio.to),
                ratio.ratio,
                verdict(ratio.ratio, ratio.most)
            );
        }
        for (name, value, most) in &self.facts {
            println!("  {name:<34} {value:>7.2}{}", verdict(*value, *most));
        }
        if self.json {
            println!("{}", self.as_json());
        }
    }

    fn as_json(&self) -> serde_json::Value {
        let medians: serde_json::Map<_, _> = self
            .medians
            .iter()
            .map(|median| (median.name.to_owned(), micros(median.median).into()))
            .collect();
        let ratios: Vec<_> = self
            .ratios
            .iter()
            .map(|ratio| {
                serde_json::json!({
                    "of": ratio.of, "to": ratio.to, "ratio": ratio.ratio, "most": ratio.most,
                })
            })
            .collect();
        let facts: serde_json::Map<_, _> = self
            .facts
            .iter()
            .map(|(name, value, most)| {
                let both = serde_json::json!({"value": value, "most": most});
                ((*name).to_owned(), both)
            })
            .collect();
        serde_json::json!({
            "bench": self.bench, "rounds": self.rounds, "median_us": medians, "ratios": ratios,
            "facts": facts,
        })
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn verdict(value: f64, most: Option<f64>) -> String {
    match most {
        Some(most) if value <= most => format!("   at most {most}: holds"),
        Some(most) => format!("   at most {most}: MISSED"),
        None => String::new(),
    }
}
