//! Writes the metrics of the tables in the format of OpenMetrics.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use rustix::fs::{major, minor};

use super::families::{GAUGE, Metric, Number, PARTS, PIPE, PageData, SCAN, STAGE, whole};
use fullbore_observe::census::Process;
use fullbore_observe::census::chains::PipeKind;
use fullbore_observe::overview::{ChainState, PipeState};

/// The names and the values of labels.
type Labels = Vec<(&'static str, String)>;

/// Returns the name of a pipe: its inode number. For a FIFO, the device numbers of its file system come
/// first, because another file system may have the same inode number.
pub fn name_of(row: &PipeState) -> String {
    match row.path {
        None => row.inode.to_string(),
        Some(_) => format!("{}:{}:{}", major(row.device), minor(row.device), row.inode),
    }
}

fn first(who: &[Process]) -> String {
    who.first().map_or_else(String::new, |who| who.name.clone())
}

impl Collector for PageData {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        let (name, help) = ("fullbore_build_info", "Version of fullbore");
        samples(encoder, name, help, GAUGE, [(&version, whole(1))])?;
        table(encoder, SCAN, &[(Labels::new(), self)])?;
        for &(name, help, label, parts) in PARTS {
            let label = |part: &str| vec![(label, part.to_owned())];
            let parts = parts.iter().map(|&(part, count)| (label(part), count));
            let parts: Vec<_> = parts.collect();
            let values = parts
                .iter()
                .map(|(labels, count)| (labels, whole(count(&self.overview) as u64)));
            samples(encoder, name, help, GAUGE, values)?;
        }
        self.pipes(encoder)?;
        self.stages(encoder)
    }
}

impl PageData {
    fn pipes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let labels = |row: &PipeState| {
            vec![
                ("pipe", name_of(row)),
                ("writer", first(&row.writers)),
                ("reader", first(&row.readers)),
            ]
        };
        let rows = self.overview.pipes.iter().map(|row| (labels(row), row));
        let rows: Vec<(Labels, &PipeState)> = rows.collect();
        table(encoder, PIPE, &rows)?;
        let info = rows.into_iter().map(|(labels, row)| self.info(labels, row));
        let info: Vec<Labels> = info.collect();
        let help = "Further facts about the pipe: its processes, its owner, and its place in a \
         pipeline";
        let ones = info.iter().map(|labels| (labels, whole(1)));
        samples(encoder, "fullbore_pipe_info", help, GAUGE, ones)
    }

    /// Adds labels for further facts: the PIDs of the writer and the reader, the owner of the pipe, its chain, and its
    /// place in the chain.
    fn info(&self, mut labels: Labels, row: &PipeState) -> Labels {
        let pid = |who: &[Process]| who.first().map(|who| who.id.pid.to_string());
        let chain = row.chain.and_then(|at| self.overview.chains.get(at));
        let place = chain.and_then(|chain| {
            let is_it = |&at: &usize| std::ptr::eq(&self.overview.pipes[at], row);
            chain.pipes.iter().position(is_it)
        });
        let kind = match row.kind {
            PipeKind::Link => "link",
            PipeKind::Private => "private",
            PipeKind::Own => "own",
            PipeKind::OneSided => "one_sided",
        };
        let facts = [
            ("writer_pid", pid(&row.writers)),
            ("reader_pid", pid(&row.readers)),
            ("owner", Some(row.owner.to_string())),
            ("kind", Some(kind.to_owned())),
            ("path", row.path.clone()),
            ("chain", chain.map(|chain| self.name_of_chain(chain))),
            ("place", place.map(|at| (at + 1).to_string())),
        ];
        labels.extend(facts.map(|(label, fact)| (label, fact.unwrap_or_default())));
        labels.retain(|(_, value)| !value.is_empty());
        labels
    }

    /// Returns the name of a chain: that of its first pipe.
    fn name_of_chain(&self, chain: &ChainState) -> String {
        let first = chain.pipes.first();
        first.map_or_else(String::new, |&at| name_of(&self.overview.pipes[at]))
    }

    fn stages(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut stages = Vec::new();
        for chain in &self.overview.chains {
            for (at, stage) in chain.stages.iter().enumerate() {
                let labels = vec![
                    ("chain", self.name_of_chain(chain)),
                    ("stage", (at + 1).to_string()),
                    ("process", first(&stage.processes)),
                ];
                stages.push((labels, stage));
            }
        }
        table(encoder, STAGE, &stages)
    }
}

/// Writes the metrics of a table, with a sample of each for each of `all`.
fn table<Of>(
    encoder: &mut DescriptorEncoder<'_>,
    metrics: &[Metric<Of>],
    all: &[(Labels, &Of)],
) -> fmt::Result {
    for &(kind, name, help, value) in metrics {
        let values = all.iter().map(|(labels, of)| (labels, value(of)));
        samples(encoder, name, help, kind, values)?;
    }
    Ok(())
}

/// Writes the samples of one metric, or nothing if there are none.
fn samples<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    kind: MetricType,
    values: impl IntoIterator<Item = (&'a Labels, Option<Number>)>,
) -> fmt::Result {
    let mut values = values
        .into_iter()
        .filter_map(|(labels, value)| Some((labels, value?)))
        .peekable();
    if values.peek().is_none() {
        return Ok(());
    }
    let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
    for (labels, value) in values {
        match labels.is_empty() {
            // A family without labels would be written with `{}`.
            true => sample(&mut metric, kind, value)?,
            false => sample(&mut metric.encode_family(labels)?, kind, value)?,
        }
    }
    Ok(())
}

fn sample(encoder: &mut MetricEncoder<'_>, kind: MetricType, value: Number) -> fmt::Result {
    match (kind, value) {
        (MetricType::Counter, Number::Whole(value)) => {
            encoder.encode_counter::<NoLabelSet, _, f64>(&value, None)
        }
        (MetricType::Counter, Number::Real(value)) => {
            encoder.encode_counter::<NoLabelSet, _, f64>(&value, None)
        }
        (_, Number::Whole(value)) => encoder.encode_gauge(&value),
        (_, Number::Real(value)) => encoder.encode_gauge(&value),
    }
}

/// Returns the page in the OpenMetrics format.
pub fn open_metrics(data: PageData) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(data));
    let mut page = String::new();
    encode(&mut page, &registry)?;
    Ok(page)
}
