//! Writes the metrics of the tables in the format of OpenMetrics.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    CounterValueEncoder, DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue,
    GaugeValueEncoder, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use rustix::fs::{major, minor};

use super::families::{GAUGE, Metric, Number, PARTS, PIPE, PageData, Parts, SCAN, STAGE, whole};
use fullbore_observe::census::chains::PipeKind;
use fullbore_observe::overview::{Overview, PipeState, ProcessInfo, StageState};

/// The names and the values of labels.
type Labels<'a> = Vec<(&'static str, &'a str)>;

impl EncodeGaugeValue for Number {
    fn encode(&self, encoder: &mut GaugeValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => EncodeGaugeValue::encode(number, encoder),
            Self::Real(number) => EncodeGaugeValue::encode(number, encoder),
        }
    }
}

impl EncodeCounterValue for Number {
    fn encode(&self, encoder: &mut CounterValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => EncodeCounterValue::encode(number, encoder),
            Self::Real(number) => EncodeCounterValue::encode(number, encoder),
        }
    }
}

/// Returns the name of a pipe: its inode number. For a FIFO, the device numbers of its file system come
/// first, because another file system may have the same inode number.
pub fn name_of(row: &PipeState) -> String {
    match row.path {
        None => row.inode.to_string(),
        Some(_) => format!("{}:{}:{}", major(row.device), minor(row.device), row.inode),
    }
}

fn first(who: &[ProcessInfo]) -> &str {
    who.first().map_or("", |who| &who.name)
}

impl Collector for PageData {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let version = vec![("version", env!("CARGO_PKG_VERSION"))];
        let build = "Version of fullbore";
        samples(
            encoder,
            "fullbore_build_info",
            build,
            GAUGE,
            [(&version, whole(1))],
        )?;
        let none = Labels::new();
        for metric in SCAN {
            metric.encode(encoder, [(&none, self)])?;
        }
        for parts in PARTS {
            parts.encode(encoder, &self.overview)?;
        }
        self.pipes(encoder)?;
        self.stages(encoder)
    }
}

impl PageData {
    fn pipes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let rows = &self.overview.pipes;
        let names: Vec<String> = rows.iter().map(name_of).collect();
        let labels: Vec<Labels> = (rows.iter().zip(&names))
            .map(|(row, name)| {
                vec![
                    ("pipe", name.as_str()),
                    ("writer", first(&row.writers)),
                    ("reader", first(&row.readers)),
                ]
            })
            .collect();
        for metric in PIPE {
            metric.encode(encoder, labels.iter().zip(rows))?;
        }
        let more: Vec<[String; 5]> = rows.iter().map(|row| self.more(row, &names)).collect();
        let info: Vec<Labels> = (rows.iter().zip(&more).zip(&labels))
            .map(|((row, [owner, writer, reader, chain, place]), labels)| {
                let kind = match row.kind {
                    PipeKind::Link => "link",
                    PipeKind::Private => "private",
                    PipeKind::Own => "own",
                    PipeKind::OneSided => "one_sided",
                };
                let path = row.path.as_deref().unwrap_or_default();
                let mut labels = labels.clone();
                labels.extend([
                    ("writer_pid", writer.as_str()),
                    ("reader_pid", reader),
                    ("owner", owner),
                    ("kind", kind),
                    ("path", path),
                    ("chain", chain),
                    ("place", place),
                ]);
                labels.retain(|(_, value)| !value.is_empty());
                labels
            })
            .collect();
        let help = "Further facts about the pipe: its processes, its owner, and its place in a \
         pipeline";
        let ones = info.iter().map(|labels| (labels, whole(1)));
        samples(encoder, "fullbore_pipe_info", help, GAUGE, ones)
    }

    /// Returns the owner of the pipe, the PIDs of its writer and its reader, its chain, and its place in the
    /// chain.
    fn more(&self, row: &PipeState, names: &[String]) -> [String; 5] {
        let pid = |who: &[ProcessInfo]| who.first().map(|who| who.id.pid.to_string());
        let chain = row.chain.and_then(|at| self.overview.chains.get(at));
        let place = chain.and_then(|chain| {
            let is_it = |&at: &usize| std::ptr::eq(&self.overview.pipes[at], row);
            chain.pipes.iter().position(is_it)
        });
        let chain = chain.and_then(|chain| chain.pipes.first());
        [
            row.owner.to_string(),
            pid(&row.writers).unwrap_or_default(),
            pid(&row.readers).unwrap_or_default(),
            chain.map(|&at| names[at].clone()).unwrap_or_default(),
            place.map(|at| (at + 1).to_string()).unwrap_or_default(),
        ]
    }

    fn stages(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let of_chains = self.overview.chains.iter().flat_map(|chain| {
            let name = chain
                .pipes
                .first()
                .map(|&at| name_of(&self.overview.pipes[at]));
            let name = name.unwrap_or_default();
            (chain.stages.iter().enumerate())
                .map(move |(at, stage)| (name.clone(), (at + 1).to_string(), stage))
        });
        let stages: Vec<(String, String, &StageState)> = of_chains.collect();
        let labels: Vec<Labels> = stages
            .iter()
            .map(|(chain, number, stage)| {
                vec![
                    ("chain", chain.as_str()),
                    ("stage", number),
                    ("process", first(&stage.processes)),
                ]
            })
            .collect();
        for metric in STAGE {
            let stages = stages.iter().map(|(_, _, stage)| *stage);
            metric.encode(encoder, labels.iter().zip(stages))?;
        }
        Ok(())
    }
}

impl<Of> Metric<Of> {
    fn encode<'a>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        all: impl IntoIterator<Item = (&'a Labels<'a>, &'a Of)>,
    ) -> fmt::Result
    where
        Of: 'a,
    {
        let values = all
            .into_iter()
            .map(|(labels, of)| (labels, (self.value)(of)));
        samples(encoder, self.name, self.help, self.kind, values)
    }
}

impl Parts {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>, overview: &Overview) -> fmt::Result {
        let labels: Vec<Labels> = (self.parts.iter())
            .map(|&(part, _)| vec![(self.label, part)])
            .collect();
        let values = (labels.iter().zip(self.parts))
            .map(|(labels, (_, value))| (labels, whole(value(overview) as u64)));
        samples(encoder, self.name, self.help, GAUGE, values)
    }
}

/// Writes the samples of one metric, or nothing if there are none.
fn samples<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    kind: MetricType,
    values: impl IntoIterator<Item = (&'a Labels<'a>, Option<Number>)>,
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
    match kind {
        MetricType::Counter => encoder.encode_counter::<NoLabelSet, _, f64>(&value, None),
        _ => encoder.encode_gauge(&value),
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
