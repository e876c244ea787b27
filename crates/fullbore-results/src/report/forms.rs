//! The table of the reports that can be written to files. A new report is a new file beside this one,
//! and one row here.

use super::Report;
use super::csv::Csv;
use super::html::Html;
use super::svg::Svg;
use crate::compare::Comparison;
use crate::run::Run;

/// A report that can be written to a file.
pub struct Form {
    /// The name of the form, which is also that of its option: `--csv`.
    pub name: &'static str,
    /// What is written, in one sentence for the help.
    pub about: &'static str,
    /// The report of a run.
    pub run: &'static (dyn Report<Run> + Sync),
    /// The report of a comparison of runs, if this form has one.
    pub comparison: Option<&'static (dyn Report<Comparison> + Sync)>,
}

/// All forms.
pub static FORMS: [Form; 3] = [
    Form {
        name: "csv",
        about: "Write the results as CSV, one line per experiment; '-' for stdout, with the table on stderr",
        run: &Csv,
        comparison: Some(&Csv),
    },
    Form {
        name: "svg",
        about: "Write the chart as SVG; '-' for stdout, with the table on stderr",
        run: &Svg,
        comparison: None,
    },
    Form {
        name: "html",
        about: "Write a self-contained HTML page with charts, sortable tables and the method; '-' for stdout",
        run: &Html,
        comparison: Some(&Html),
    },
];
