//! The run as one SVG document, for a page or an article: a section per group, with a bar per experiment
//! (`svg/bars.rs`), or a heat map where its experiments stand in a grid (`svg/heat_map.rs`). The HTML
//! page has the same drawings, and dots (`svg/dots.rs`).
//!
//! `svg/canvas.rs` writes the elements, `svg/layout.rs` knows what texts need. The document is drawn in
//! light colours, and a style sheet replaces each by its dark counterpart where the reader's system is
//! dark. The description has the figures, for those who cannot see the drawing.

mod bars;
mod canvas;
pub(crate) mod dots;
mod heat_map;
mod layout;
mod section;

use std::fmt::Write as _;
use std::io;

use super::{Report, groups, how_measured, is_noisy, noisy_footnote};
use crate::run::{Outcome, Run, Unit};
use bars::Sign;
use canvas::{BACKGROUND, Canvas, Colors, Label, PALETTE, Rect, TEXT_SIZE, escaped};
use layout::{LINE_HEIGHT, Legend, shortened, wrapped};
use section::Section;

pub(crate) use layout::{ChartSvg, Paper};
pub(crate) use section::charts;

/// The run as one SVG document.
#[derive(Debug, Clone, Copy, Default)]
pub struct Svg;

impl Report<Run> for Svg {
    fn write(&self, run: &Run, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(Document::of(run).written().as_bytes())
    }
}

/// The class by which the style sheet finds this document and no other, also inside a page.
pub(crate) const CLASS: &str = "fullbore-chart";

// Lengths are in pixels.
const TITLE_SIZE: i32 = 18;
const HEADING_SIZE: i32 = 14;
/// Above a section, for its name.
const HEADING_HEIGHT: i32 = 30;
const SECTION_GAP: i32 = 18;
const PAPER: Paper = Paper::ALONE;

/// What the document shows, before it has coordinates.
struct Document<'a> {
    title: String,
    subtitle: Vec<String>,
    caption: Vec<String>,
    legend: Legend<Sign>,
    sections: Vec<Section<'a>>,
    /// Where all bars begin.
    axis_left: i32,
}

impl<'a> Document<'a> {
    fn of(run: &'a Run) -> Document<'a> {
        let sections: Vec<Section> = groups(run)
            .into_iter()
            .map(|(name, outcomes)| Section::of(&name, outcomes, PAPER))
            .collect();
        let bars = sections.iter().flat_map(Section::with_bars).copied();
        let in_lines = |sentence: &String| wrapped(sentence, TEXT_SIZE, PAPER.inside());
        Document {
            title: title(run),
            subtitle: in_lines(&subtitle(run)),
            caption: caption(run).iter().flat_map(in_lines).collect(),
            legend: bars::legend(bars.clone()),
            axis_left: bars::axis_left(bars, PAPER),
            sections,
        }
    }

    /// Returns the document as SVG.
    fn written(&self) -> String {
        let (width, height) = (PAPER.width, self.height());
        format!(
            "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             xmlns=\"http://www.w3.org/2000/svg\" class=\"{CLASS}\" role=\"img\">\n\
             <title>{}</title>\n<desc>{}</desc>\n<style>\n{}</style>\n{}</svg>\n",
            escaped(&self.title),
            escaped(&self.description()),
            dark_rules(),
            self.drawn(width, height).into_group(),
        )
    }

    /// Returns where the legend begins.
    fn legend_top(&self) -> i32 {
        PAPER.margin + TITLE_SIZE + 10 + self.subtitle.len() as i32 * LINE_HEIGHT + 4
    }

    /// Returns where the first section begins.
    fn sections_top(&self) -> i32 {
        self.legend_top() + self.legend.height(PAPER) + 2
    }

    fn height(&self) -> i32 {
        let section = |section: &Section| HEADING_HEIGHT + section.height() + SECTION_GAP;
        let sections: i32 = self.sections.iter().map(section).sum();
        let caption = self.caption.len() as i32 * LINE_HEIGHT;
        self.sections_top() + sections + caption + PAPER.margin
    }

    fn drawn(&self, width: i32, height: i32) -> Canvas {
        let mut canvas = Canvas::default();
        let all = Rect {
            left: 0,
            top: 0,
            width,
            height,
        };
        canvas.rect(all, BACKGROUND);
        self.draw_head(&mut canvas);
        let mut top = self.sections_top();
        for section in &self.sections {
            let heading = Label::at(PAPER.margin, top + HEADING_HEIGHT / 2).heading(HEADING_SIZE);
            let name = shortened(&section.name, HEADING_SIZE, PAPER.inside());
            canvas.text(heading, &name);
            section.draw(&mut canvas, self.axis_left, top + HEADING_HEIGHT);
            top += HEADING_HEIGHT + section.height() + SECTION_GAP;
        }
        draw_lines(&mut canvas, &self.caption, top);
        canvas
    }

    /// Draws the title, what the machine is, and the legend.
    fn draw_head(&self, canvas: &mut Canvas) {
        let title = shortened(&self.title, TITLE_SIZE, PAPER.inside());
        let label = Label::at(PAPER.margin, PAPER.margin + TITLE_SIZE / 2);
        canvas.text(label.heading(TITLE_SIZE), &title);
        draw_lines(canvas, &self.subtitle, PAPER.margin + TITLE_SIZE + 10);
        let top = self.legend_top();
        self.legend.draw(canvas, PAPER, top, |canvas, sign, at| {
            sign.draw(canvas, at);
        });
    }

    /// Returns what the document shows in words: every experiment with its figure.
    fn description(&self) -> String {
        let mut words = String::from("Measured performance.");
        for section in &self.sections {
            let _ = write!(words, " {}", section.in_words());
        }
        for line in &self.caption {
            let _ = write!(words, " {line}.");
        }
        words
    }
}

/// Draws lines of faint text from `top` on.
fn draw_lines(canvas: &mut Canvas, lines: &[String], top: i32) {
    let mut y = top + LINE_HEIGHT / 2;
    for line in lines {
        canvas.text(Label::at(PAPER.margin, y).faint(), line);
        y += LINE_HEIGHT;
    }
}

/// Returns one group in words: every experiment with its figure.
pub(crate) fn chart_in_words(name: &str, outcomes: &[&Outcome]) -> String {
    Section::of(name, outcomes.to_vec(), Paper::WIDE).in_words()
}

/// Returns the title of a run: what was measured, and on which CPU and kernel.
pub(super) fn title(run: &Run) -> String {
    let machine = &run.machine;
    let cpu = machine
        .cpu_model
        .as_deref()
        .unwrap_or(&machine.architecture);
    let is_throughput = |outcome: &Outcome| outcome.unit == Unit::GibPerS;
    let subject = if run.experiments.iter().all(is_throughput) {
        "Pipe throughput"
    } else {
        "Measured by fullbore bench"
    };
    match &machine.kernel {
        Some(kernel) => format!("{subject}: {cpu}, Linux {kernel}"),
        None => format!("{subject}: {cpu}"),
    }
}

/// Returns what else the figures depend on, beside the facts in the title.
fn subtitle(run: &Run) -> String {
    let lines = run.machine.lines();
    let shown = ["CPUs used", "hypervisor", "huge pages"];
    let parts: Vec<String> = shown
        .iter()
        .filter_map(|shown| lines.iter().find(|(label, _)| label == shown))
        .map(|(label, value)| match *label {
            "CPUs used" => value.clone(),
            label => format!("{label}: {value}"),
        })
        .collect();
    parts.join(" · ")
}

/// Returns the sentences below the drawing.
fn caption(run: &Run) -> Vec<String> {
    let mut sentences = vec![how_measured(run)];
    if run.experiments.iter().any(is_noisy) {
        sentences.push(noisy_footnote());
    }
    sentences
}

/// Returns the colours of all charts.
fn palette() -> impl Iterator<Item = Colors> {
    PALETTE
        .into_iter()
        .chain(bars::palette())
        .chain(heat_map::palette())
        .chain(dots::palette())
}

/// Returns the rules of a style sheet that replace every light colour by its dark counterpart.
pub(crate) fn dark_rules() -> String {
    let mut rules = String::from("@media screen and (prefers-color-scheme: dark) {\n");
    for Colors { light, dark } in palette() {
        for property in ["fill", "stroke"] {
            let _ = writeln!(
                rules,
                "  .{CLASS} [{property}=\"{light}\"] {{ {property}: {dark}; }}"
            );
        }
    }
    rules + "}\n"
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, grid};
    use super::layout::assert_texts_have_room;
    use super::*;

    fn written(run: &Run) -> String {
        let mut text = Vec::new();
        Svg.write(run, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// Returns the text of the first element with this name.
    fn text_of(svg: &str, name: &str) -> String {
        let document = roxmltree::Document::parse(svg).unwrap();
        let mut elements = document.descendants();
        let element = elements.find(|node| node.tag_name().name() == name);
        element.unwrap().text().unwrap_or_default().to_owned()
    }

    /// Bars and a heat map.
    fn all_kinds() -> Run {
        let mut run = grid::fixture();
        run.experiments.extend(fixture().experiments);
        run
    }

    #[test]
    fn the_document_is_xml_whatever_the_names_are() {
        let svg = written(&fixture());
        let document = roxmltree::Document::parse(&svg).unwrap();
        let texts: Vec<&str> = document
            .descendants()
            .filter(|node| node.tag_name().name() == "text")
            .filter_map(|node| node.text())
            .collect();
        assert!(texts.contains(&"more <&> \"others\""), "{texts:?}");
        assert!(texts[0].contains("<Platinum>"));
        assert!(!svg.contains('\t'));
    }

    #[test]
    fn no_text_overlaps_another_or_leaves_the_document() {
        let run = all_kinds();
        assert_texts_have_room(&written(&run));
        for paper in [Paper::WIDE, Paper::CELLS, Paper::NARROW] {
            for (_, outcomes) in groups(&run) {
                for chart in charts(&outcomes, paper) {
                    assert_texts_have_room(&format!(
                        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\">{}</svg>",
                        chart.width, chart.height, chart.shapes
                    ));
                }
            }
        }
    }

    #[test]
    fn every_experiment_is_in_the_document() {
        let run = fixture();
        let svg = written(&run);
        for outcome in &run.experiments {
            assert!(svg.contains(&outcome.name), "{}", outcome.name);
        }
        for text in [
            "~104",
            "skipped: no hugetlb page",
            "failed: the reader ended",
        ] {
            assert!(svg.contains(text), "{text}");
        }
    }

    #[test]
    fn the_document_has_words_for_those_who_cannot_see_it() {
        let svg = written(&fixture());
        assert!(svg.starts_with("<svg "));
        let root = svg.lines().next().unwrap();
        assert!(root.contains("role=\"img\"") && root.contains("viewBox=\"0 0 960 "));
        assert!(text_of(&svg, "title").starts_with("Pipe throughput: Intel"));
        let words = text_of(&svg, "desc");
        assert!(
            words.contains("write_read 0.93 (0.92 to 0.95), published 3.70"),
            "{words}"
        );
    }

    #[test]
    fn every_colour_has_a_dark_counterpart() {
        let svg = written(&all_kinds());
        let (style, shapes) = svg.split_once("</style>").unwrap();
        let mut used = 0;
        for property in ["fill", "stroke"] {
            for rest in shapes.split(&format!(" {property}=\"#")).skip(1) {
                let color = &rest[..6];
                let rule = format!("[{property}=\"#{color}\"]");
                assert!(style.contains(&rule), "{rule}");
                used += 1;
            }
        }
        assert!(used > 20, "{used}");
        let mut light: Vec<_> = palette().map(|color| color.light).collect();
        light.sort();
        light.dedup();
        assert_eq!(light.len(), palette().count());
    }

    #[test]
    fn a_run_of_nothing_is_still_a_document() {
        let mut run = fixture();
        run.experiments.clear();
        assert_texts_have_room(&written(&run));
    }
}
