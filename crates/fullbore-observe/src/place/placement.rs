//! On which CPUs each stage of a pipeline may run.

use std::fmt;

use fullbore_host::machine::{format_cpu_list, parse_cpu_list};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// On which CPUs each stage may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The idea behind it.
    pub kind: Kind,
    /// The CPUs of each stage; `None` for a stage that the scheduler places.
    #[serde(serialize_with = "as_lists", deserialize_with = "from_lists")]
    pub stages: Vec<Option<Vec<usize>>>,
}

/// The idea behind a placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The scheduler places every stage.
    None,
    /// All stages are on one CPU.
    Together,
    /// Stages that do little are on the CPU of a neighbour.
    Grouped,
    /// All stages are on CPUs that share a cache.
    Near,
    /// Each stage is on another CPU.
    Spread,
    /// The user has named the CPUs.
    Chosen,
}

impl Placement {
    /// Returns the placement of the scheduler.
    pub fn none(stages: usize) -> Self {
        Self {
            kind: Kind::None,
            stages: vec![None; stages],
        }
    }

    /// Returns the placement of all stages on one CPU.
    pub fn together(stages: usize, cpu: usize) -> Self {
        Self {
            kind: Kind::Together,
            stages: vec![Some(vec![cpu]); stages],
        }
    }

    /// Returns the placement of each stage on the next of these CPUs, beginning again with the first if there
    /// are too few.
    pub fn spread(stages: usize, cpus: &[usize]) -> Self {
        let cpus = cpus.iter().cycle();
        Self {
            kind: Kind::Spread,
            stages: cpus.take(stages).map(|&cpu| Some(vec![cpu])).collect(),
        }
    }

    /// Returns whether it leaves all stages to the scheduler.
    pub fn is_none(&self) -> bool {
        self.stages.iter().all(Option::is_none)
    }
}

/// Describes the placement: `all stages on CPU 1`, `stages 1 and 2 on CPU 0, stage 3 on CPU 1`.
impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("left to the scheduler");
        }
        let mut groups: Vec<(&Option<Vec<usize>>, Vec<usize>)> = Vec::new();
        for (at, cpus) in self.stages.iter().enumerate() {
            match groups.iter_mut().find(|(known, _)| *known == cpus) {
                Some((_, stages)) => stages.push(at + 1),
                None => groups.push((cpus, vec![at + 1])),
            }
        }
        let is_one = groups.len() == 1;
        for (number, (cpus, stages)) in groups.into_iter().enumerate() {
            if number > 0 {
                f.write_str(", ")?;
            }
            match is_one {
                true if stages.len() > 1 => f.write_str("all stages")?,
                _ => f.write_str(&named(&stages))?,
            }
            match cpus.as_deref() {
                None => f.write_str(" left to the scheduler")?,
                Some([cpu]) => write!(f, " on CPU {cpu}")?,
                Some(cpus) => write!(f, " on CPUs {}", format_cpu_list(cpus))?,
            }
        }
        Ok(())
    }
}

/// Returns `stage 1`, `stages 1 and 2` or `stages 1, 2 and 4`.
fn named(stages: &[usize]) -> String {
    let text = |stages: &[usize]| {
        let numbers: Vec<String> = stages.iter().map(usize::to_string).collect();
        numbers.join(", ")
    };
    match stages {
        [one] => format!("stage {one}"),
        [others @ .., last] => format!("stages {} and {last}", text(others)),
        [] => "no stage".to_owned(),
    }
}

fn as_lists<S: Serializer>(
    stages: &[Option<Vec<usize>>],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let lists = stages
        .iter()
        .map(|cpus| cpus.as_deref().map(format_cpu_list));
    serializer.collect_seq(lists)
}

fn from_lists<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Option<Vec<usize>>>, D::Error> {
    let lists: Vec<Option<String>> = Vec::deserialize(deserializer)?;
    let parse = |list: Option<String>| match list {
        None => Ok(None),
        Some(list) => parse_cpu_list(&list)
            .map(Some)
            .ok_or_else(|| D::Error::custom(format!("invalid list of CPUs '{list}'"))),
    };
    lists.into_iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement_is_described_by_its_groups() {
        let of = |stages: &[&[usize]]| Placement {
            kind: Kind::Grouped,
            stages: (stages.iter())
                .map(|cpus| (!cpus.is_empty()).then(|| cpus.to_vec()))
                .collect(),
        };
        for (placement, words) in [
            (Placement::none(2), "left to the scheduler"),
            (Placement::together(3, 1), "all stages on CPU 1"),
            (of(&[&[0, 1, 2], &[0, 1, 2]]), "all stages on CPUs 0-2"),
            (
                Placement::spread(2, &[2, 5]),
                "stage 1 on CPU 2, stage 2 on CPU 5",
            ),
            (
                of(&[&[0], &[1], &[0], &[0]]),
                "stages 1, 3 and 4 on CPU 0, stage 2 on CPU 1",
            ),
            (
                of(&[&[0], &[]]),
                "stage 1 on CPU 0, stage 2 left to the scheduler",
            ),
        ] {
            assert_eq!(placement.to_string(), words);
        }
        assert_eq!(
            Placement::spread(3, &[0, 1]).stages,
            [Some(vec![0]), Some(vec![1]), Some(vec![0])]
        );
    }

    #[test]
    fn cpus_are_written_as_lists() {
        let json = serde_json::to_string(&Placement::together(2, 3)).unwrap();
        assert_eq!(json, r#"{"kind":"together","stages":["3","3"]}"#);
        let read: Placement = serde_json::from_str(&json).unwrap();
        assert_eq!(read, Placement::together(2, 3));
    }
}
