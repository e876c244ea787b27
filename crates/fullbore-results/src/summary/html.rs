//! The summary as one HTML page, with the parts of that of a run.

use std::io;

use askama::Template;

use super::Summary;
use crate::report::Report;
use crate::report::fields::Field;
use crate::report::html::Html;
use crate::report::html::page::{Page, Section, Table};

impl Report<Summary> for Html {
    fn write(&self, summary: &Summary, out: &mut dyn io::Write) -> io::Result<()> {
        let page = Page {
            title: summary.title(),
            made_by: "fullbore run --summary --html",
            conclusion: summary.sentences(),
            doubts: Vec::new(),
            lead: Vec::new(),
            sections: vec![stages(summary), slowest(summary), machines(summary)],
            heading_of_facts: String::new(),
            facts: Vec::new(),
            method: [
                "A stage is the slow one of a pipeline if the others waited for it, as the verdict of ‘fullbore run --report’ says",
                "The throughput is the bytes that went through the pipe before a stage (after the first one) divided by the time that its pipelines ran",
                "The last column compares each pipeline with those of the other machines whose first pipe moved about as many bytes, and is the median of these ratios",
            ]
            .map(str::to_owned)
            .to_vec(),
        };
        page.write_into(out)
    }
}

fn section<'a>(id: &str, heading: &str, columns: Vec<Field>) -> Section<'a> {
    Section {
        id: id.to_owned(),
        heading: heading.to_owned(),
        table: Some(Table::of(heading.to_owned(), columns)),
        ..Section::default()
    }
}

fn stages<'a>(summary: &Summary) -> Section<'a> {
    let mut rows = summary.rows();
    let headings = rows.remove(0);
    let rows: Vec<&Vec<String>> = rows.iter().collect();
    let field = |(at, heading): (usize, &String)| {
        let is_number = (1..5).contains(&at);
        Field::of((heading, is_number, 1), &rows, |row| {
            Some((row[at].clone(), row[at].parse().ok()))
        })
    };
    let columns = headings.iter().enumerate().map(field);
    section("stages", "Stages", columns.collect())
}

fn slowest<'a>(summary: &Summary) -> Section<'a> {
    let rows: Vec<_> = summary.slowest.iter().collect();
    let columns = vec![
        Field::words(("input", 1), &rows, |slow| slow.input.clone()),
        Field::words(("machine", 1), &rows, |slow| slow.host.clone()),
        Field::of(("seconds", true, 1), &rows, |slow| {
            Some((format!("{:.3}", slow.seconds), Some(slow.seconds)))
        }),
        Field::words(("why", 1), &rows, |slow| slow.why.clone()),
    ];
    section("slowest", "The slowest pipelines", columns)
}

const TIMES: &str = "times as long as on the others";

fn machines<'a>(summary: &Summary) -> Section<'a> {
    let rows: Vec<_> = summary.machines.iter().collect();
    let columns = vec![
        Field::words(("machine", 1), &rows, |machine| machine.host.clone()),
        Field::of(("pipelines", true, 1), &rows, |machine| {
            let pipelines = machine.pipelines;
            Some((pipelines.to_string(), Some(pipelines as f64)))
        }),
        Field::of((TIMES, true, 1), &rows, |machine| {
            let times = machine.times_as_long;
            let text = times.map_or("unknown".to_owned(), |times| format!("{times:.2}"));
            Some((text, times))
        }),
    ];
    section("machines", "Machines", columns)
}
