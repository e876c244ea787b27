//! The run as a picture: a section per group, with a bar per experiment, or a heat map where its
//! experiments stand in a grid (`heat_map.rs`); for a page or an article. `pictures` draws one group
//! for the HTML page, which also has pictures of a kind of its own (`dots.rs`).
//!
//! plotters draws the shapes; where they go is computed here first, because text has no size
//! until a browser picks a font: every label gets the room of a wide one. The picture is drawn in
//! the light colours of `PALETTE`, and a style sheet trades each for its dark counterpart where
//! the reader's system is dark. For those who hear the picture, its description has the figures.

mod canvas;
pub(crate) mod dots;
mod heat_map;

use std::fmt::Write as _;
use std::io;

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::grid::Grid;
use super::{
    Report, figure, groups, how_measured, is_noisy, marked_median, noisy_footnote, one_line,
};
use crate::run::{Outcome, Run, Unit};
use canvas::{
    AXIS, AXIS_HEIGHT, Area, BACKGROUND, BAR, BAR_HEIGHT, Colors, Drawn, GRID, HEADING_HEIGHT,
    HEADING_SIZE, LEGEND_GAP, LINE_HEIGHT, Label, MOST_ROWS, NAME_GAP, PALETTE, PUBLISHED,
    ROW_HEIGHT, SECTION_GAP, TEXT_SIZE, TITLE_SIZE, VALUE_GAP, VALUE_ROOM, WHISKER, draw_name,
    drawn, hexadecimal, line, room_for, shortened, wrapped,
};
pub(crate) use canvas::{Paper, Picture, reason};
use heat_map::HeatMap;

/// The run as one SVG document.
#[derive(Debug, Clone, Copy, Default)]
pub struct Svg;

impl Report<Run> for Svg {
    fn write(&self, run: &Run, out: &mut dyn io::Write) -> io::Result<()> {
        let chart = Chart::of(run);
        let drawn = chart.drawn()?;
        out.write_all(dressed(&drawn, &chart).as_bytes())
    }
}

/// All of them.
fn palette() -> impl Iterator<Item = Colors> {
    PALETTE
        .into_iter()
        .chain(heat_map::palette())
        .chain(dots::palette())
}

/// What the picture shows, before it has coordinates.
struct Chart<'a> {
    title: String,
    subtitle: Vec<String>,
    caption: Vec<String>,
    legend: Vec<Mark>,
    sections: Vec<Section<'a>>,
    /// Where the axes begin: right of the longest name.
    axis_left: i32,
    paper: Paper,
}

/// A group of experiments.
struct Section<'a> {
    name: String,
    outcomes: Vec<&'a Outcome>,
    shown: Shown<'a>,
    paper: Paper,
}

/// How a section shows its experiments.
enum Shown<'a> {
    /// A bar each, on an axis with these ticks.
    Bars(Ticks),
    /// A cell each.
    Cells(HeatMap<'a>),
}

/// What the legend explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Median,
    Range,
    Published,
}

/// The room for the sign of a legend's entry.
const MARK_ROOM: i32 = 30;

impl Mark {
    /// The sign and the words.
    fn width(self) -> i32 {
        MARK_ROOM + room_for(self.words(), TEXT_SIZE)
    }

    fn words(self) -> &'static str {
        match self {
            Mark::Median => "median of the rounds",
            Mark::Range => "slowest and fastest round",
            Mark::Published => "published figure",
        }
    }
}

impl<'a> Chart<'a> {
    fn of(run: &'a Run) -> Chart<'a> {
        let paper = Paper::ALONE;
        let sections: Vec<Section> = groups(run)
            .into_iter()
            .map(|(name, outcomes)| Section::of(&name, outcomes, paper))
            .collect();
        Chart {
            title: title(run),
            subtitle: wrapped(&subtitle(run), TEXT_SIZE, paper.inside()),
            caption: caption(run)
                .iter()
                .flat_map(|sentence| wrapped(sentence, TEXT_SIZE, paper.inside()))
                .collect(),
            legend: legend(&sections),
            axis_left: axis_left(&sections, paper),
            sections,
            paper,
        }
    }

    /// The top of the first section.
    fn head_height(&self) -> i32 {
        let lines = self.subtitle.len() as i32 + i32::from(!self.legend.is_empty());
        self.paper.margin + TITLE_SIZE + 10 + lines * LINE_HEIGHT + 14
    }

    fn height(&self) -> i32 {
        let section = |section: &Section| HEADING_HEIGHT + section.height() + SECTION_GAP;
        let sections: i32 = self.sections.iter().map(section).sum();
        let caption = self.caption.len() as i32 * LINE_HEIGHT;
        self.head_height() + sections + caption + self.paper.margin
    }

    /// All of it as SVG.
    fn drawn(&self) -> io::Result<String> {
        let margin = self.paper.margin;
        drawn(self.paper, self.height(), |area| {
            area.fill(&BACKGROUND.light)?;
            self.draw_head(area)?;
            let mut top = self.head_height();
            for section in &self.sections {
                Label::at(margin, top + HEADING_HEIGHT / 2)
                    .heading(HEADING_SIZE)
                    .draw(area, &section.name)?;
                section.draw(area, self.axis_left, top + HEADING_HEIGHT)?;
                top += HEADING_HEIGHT + section.height() + SECTION_GAP;
            }
            for line in &self.caption {
                Label::at(margin, top + LINE_HEIGHT / 2)
                    .faint()
                    .draw(area, line)?;
                top += LINE_HEIGHT;
            }
            Ok(())
        })
    }

    /// The title, what the machine is, and the legend.
    fn draw_head(&self, area: &Area) -> Drawn {
        let margin = self.paper.margin;
        let title = shortened(&self.title, TITLE_SIZE, self.paper.inside());
        let mut y = margin + TITLE_SIZE / 2;
        Label::at(margin, y)
            .heading(TITLE_SIZE)
            .draw(area, &title)?;
        y += TITLE_SIZE / 2 + 10 + LINE_HEIGHT / 2;
        for line in &self.subtitle {
            Label::at(margin, y).faint().draw(area, line)?;
            y += LINE_HEIGHT;
        }
        draw_legend(area, &self.legend, self.paper, y + 4)
    }
}

/// Where the axes of bars begin: right of the longest name, if that stands beside them.
fn axis_left(sections: &[Section], paper: Paper) -> i32 {
    if paper.names_above {
        return paper.margin;
    }
    let longest_name = sections
        .iter()
        .filter(|section| matches!(section.shown, Shown::Bars(_)))
        .flat_map(|section| &section.outcomes)
        .map(|outcome| room_for(&one_line(&outcome.name), TEXT_SIZE))
        .max()
        .unwrap_or(0);
    paper.margin + longest_name.min(paper.width / 2) + NAME_GAP
}

/// The entries of a legend, from the height `y` on, as many on a line as fit.
fn draw_legend(area: &Area, marks: &[Mark], paper: Paper, mut y: i32) -> Drawn {
    let mut x = paper.margin;
    for mark in marks {
        let width = mark.width();
        if x > paper.margin && x + width > paper.right() {
            (x, y) = (paper.margin, y + LINE_HEIGHT);
        }
        draw_mark(area, *mark, x, y)?;
        Label::at(x + MARK_ROOM, y).draw(area, mark.words())?;
        x += width + LEGEND_GAP;
    }
    Ok(())
}

/// How many lines a legend takes.
fn legend_lines(marks: &[Mark], paper: Paper) -> i32 {
    let (mut x, mut lines) = (0, i32::from(!marks.is_empty()));
    for mark in marks {
        if x > 0 && x + mark.width() > paper.inside() {
            (x, lines) = (0, lines + 1);
        }
        x += mark.width() + LEGEND_GAP;
    }
    lines
}

/// One group, its legend in the first picture; several of one scale where it has many experiments.
pub(crate) fn pictures(outcomes: &[&Outcome], paper: Paper) -> io::Result<Vec<Picture>> {
    let whole = [Section::of("", outcomes.to_vec(), paper)];
    let (mut marks, axis_left) = (legend(&whole), axis_left(&whole, paper));
    let [whole] = whole;
    let mut pictures = Vec::new();
    for part in whole.parts() {
        let head = match legend_lines(&marks, paper) {
            0 => 0,
            lines => lines * LINE_HEIGHT + 8,
        };
        pictures.push(Picture::of(paper, head + part.height(), |area| {
            draw_legend(area, &marks, paper, LINE_HEIGHT / 2)?;
            part.draw(area, axis_left, head)
        })?);
        marks.clear();
    }
    Ok(pictures)
}

/// That picture in words: every experiment with its figure.
pub(crate) fn picture_in_words(name: &str, outcomes: &[&Outcome]) -> String {
    Section::of(name, outcomes.to_vec(), Paper::WIDE).in_words()
}

/// The picture's title.
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

/// Where the figures are from, as far as the title does not say it.
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

/// What stands below the picture, a sentence each.
fn caption(run: &Run) -> Vec<String> {
    let mut sentences = vec![how_measured(run)];
    if run.experiments.iter().any(is_noisy) {
        sentences.push(noisy_footnote());
    }
    sentences
}

/// What the legend must explain of these sections.
fn legend(sections: &[Section]) -> Vec<Mark> {
    let any = |has: fn(&Outcome) -> bool| {
        sections
            .iter()
            .filter(|section| matches!(section.shown, Shown::Bars(_)))
            .flat_map(|section| &section.outcomes)
            .any(|outcome| has(outcome))
    };
    [
        (Mark::Median, any(|outcome| outcome.figure.is_some())),
        (Mark::Range, any(|outcome| outcome.figure.is_some())),
        (Mark::Published, any(|outcome| outcome.published.is_some())),
    ]
    .into_iter()
    .filter_map(|(mark, shown)| shown.then_some(mark))
    .collect()
}

impl<'a> Section<'a> {
    fn of(name: &str, outcomes: Vec<&'a Outcome>, paper: Paper) -> Section<'a> {
        let largest = outcomes
            .iter()
            .flat_map(|outcome| [largest_round(outcome), outcome.published])
            .flatten()
            .fold(0.0, f64::max);
        let shown = match Grid::of(&outcomes) {
            Some(grid) => Shown::Cells(HeatMap::of(grid, paper)),
            None => Shown::Bars(Ticks::up_to(largest)),
        };
        Section {
            name: one_line(name),
            outcomes,
            shown,
            paper,
        }
    }

    /// What its axis is in: that of its experiments, which have one.
    fn unit(&self) -> &'static str {
        self.outcomes
            .first()
            .map_or("", |outcome| outcome.unit.name())
    }

    /// Itself in pieces that fit on a sheet; a heat map is one.
    fn parts(self) -> Vec<Section<'a>> {
        let Shown::Bars(ticks) = self.shown else {
            return vec![self];
        };
        let part = |outcomes: &[&'a Outcome]| Section {
            name: self.name.clone(),
            outcomes: outcomes.to_vec(),
            shown: Shown::Bars(ticks),
            paper: self.paper,
        };
        self.outcomes.chunks(MOST_ROWS).map(part).collect()
    }

    fn row_height(&self) -> i32 {
        if self.paper.names_above {
            LINE_HEIGHT + ROW_HEIGHT
        } else {
            ROW_HEIGHT
        }
    }

    fn bars_height(&self) -> i32 {
        self.outcomes.len() as i32 * self.row_height()
    }

    /// Without its name.
    fn height(&self) -> i32 {
        match &self.shown {
            Shown::Bars(_) => self.bars_height() + AXIS_HEIGHT,
            Shown::Cells(map) => map.height(),
        }
    }

    fn draw(&self, area: &Area, axis_left: i32, bars_top: i32) -> Drawn {
        let ticks = match &self.shown {
            Shown::Bars(ticks) => ticks,
            Shown::Cells(map) => return map.draw(area, bars_top),
        };
        let scale = Scale {
            left: axis_left,
            length: self.paper.right() - VALUE_ROOM - axis_left,
            end: ticks.end(),
            paper: self.paper,
        };
        self.draw_axis(area, ticks, &scale, bars_top)?;
        for (row, outcome) in self.outcomes.iter().enumerate() {
            let bottom = bars_top + (row as i32 + 1) * self.row_height();
            draw_row(area, &scale, outcome, bottom - ROW_HEIGHT / 2)?;
        }
        Ok(())
    }

    /// The grid, the axis's figures and its unit.
    fn draw_axis(&self, area: &Area, ticks: &Ticks, scale: &Scale, top: i32) -> Drawn {
        let bottom = top + self.bars_height();
        // On a narrow axis every other tick has its figure.
        let step = scale.length / ticks.steps.max(1) as i32;
        let labelled = if step < TICK_ROOM { 2 } else { 1 };
        for (index, tick) in ticks.values().enumerate() {
            let x = scale.x(tick);
            let color = if index == 0 { AXIS } else { GRID };
            area.draw(&line((x, top), (x, bottom), color, 1))?;
            if index % labelled != 0 {
                continue;
            }
            let anchor = if x <= scale.paper.margin {
                HPos::Left
            } else {
                HPos::Center
            };
            Label::at(x, bottom + AXIS_HEIGHT / 2)
                .faint()
                .anchored(anchor)
                .draw(area, &ticks.label(tick))?;
        }
        let end = scale.x(scale.end) + room_for(&ticks.label(scale.end), TEXT_SIZE) / 2;
        Label::at(end + 6, bottom + AXIS_HEIGHT / 2)
            .faint()
            .draw(area, self.unit())
    }

    /// Every experiment with its figure, and which is best of a heat map.
    fn in_words(&self) -> String {
        let kind = match self.shown {
            Shown::Bars(_) => "horizontal bar chart",
            Shown::Cells(_) => "heat map",
        };
        let mut words = format!("{}, {kind} in {}:", self.name, self.unit());
        for (index, outcome) in self.outcomes.iter().enumerate() {
            let separator = if index == 0 { "" } else { ";" };
            let _ = write!(words, "{separator} {} {}", outcome.name, in_words(outcome));
        }
        words.push('.');
        if let Shown::Cells(map) = &self.shown
            && let Some(best) = map.in_words()
        {
            let _ = write!(words, " {best}.");
        }
        words
    }
}

/// What two figures of an axis need between them.
const TICK_ROOM: i32 = 32;

/// The largest round of an outcome.
fn largest_round(outcome: &Outcome) -> Option<f64> {
    outcome.figure.as_ref().map(|spread| spread.max)
}

/// Round numbers along an axis.
#[derive(Debug, Clone, Copy)]
struct Ticks {
    /// From one to the next.
    step: f64,
    /// How many steps the axis has.
    steps: u32,
}

impl Ticks {
    /// Four to eight steps of a round number that reach `largest`.
    fn up_to(largest: f64) -> Ticks {
        let largest = if largest > 0.0 { largest } else { 1.0 };
        let magnitude = 10_f64.powf((largest / 8.0).log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .map(|factor| factor * magnitude)
            .into_iter()
            .find(|step| largest / step <= 8.0)
            .unwrap_or(10.0 * magnitude);
        Ticks {
            step,
            // A whisker that ends on a tick needs no further one.
            steps: (largest / step - 1e-9).ceil().max(1.0) as u32,
        }
    }

    fn end(&self) -> f64 {
        f64::from(self.steps) * self.step
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let step = self.step;
        (0..=self.steps).map(move |index| f64::from(index) * step)
    }

    /// A tick in as many digits as tell it from the next.
    fn label(&self, tick: f64) -> String {
        let text = format!("{tick:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// Where on the picture a figure is.
struct Scale {
    /// Of 0, in pixels.
    left: i32,
    /// From 0 to the end, in pixels.
    length: i32,
    /// The figure at the axis's end.
    end: f64,
    paper: Paper,
}

impl Scale {
    fn x(&self, figure: f64) -> i32 {
        self.left + (figure / self.end * f64::from(self.length)).round() as i32
    }
}

/// One experiment around the height `y`: its name, and its bar or why it has none.
fn draw_row(area: &Area, scale: &Scale, outcome: &Outcome, y: i32) -> Drawn {
    draw_name(area, &outcome.name, scale.left, scale.paper, y)?;
    let published = outcome.published.map(|published| scale.x(published));
    let end = match &outcome.figure {
        Some(spread) => {
            let (min, median, max) = (spread.min, spread.median, spread.max);
            draw_bar(area, scale.left, scale.x(median), y)?;
            draw_whisker(area, scale.x(min), scale.x(max), y)?;
            scale.x(max)
        }
        None => scale.left,
    };
    if let Some(x) = published {
        draw_published(area, x, y)?;
    }
    draw_figure(area, scale.paper, outcome, end, published, y)
}

/// The figure at the end of a bar, or the reason why there is no bar, clear of the marker of the
/// published figure.
fn draw_figure(
    area: &Area,
    paper: Paper,
    outcome: &Outcome,
    bar_end: i32,
    published: Option<i32>,
    y: i32,
) -> Drawn {
    let measured = outcome.figure.is_some();
    let text = if measured {
        marked_median(outcome)
    } else {
        reason(outcome)
    };
    let wanted = room_for(&text, TEXT_SIZE);
    let (x, room) = clear_of_marker(bar_end + VALUE_GAP, wanted, published, paper);
    let label = Label::at(x, y);
    let label = if measured { label } else { label.faint() };
    label.draw(area, &shortened(&text, TEXT_SIZE, room))
}

/// Where a text that wants `wanted` pixels stands, and the room it has: from `x` on, unless it
/// would run into a marker and has more room behind that.
fn clear_of_marker(x: i32, wanted: i32, marker: Option<i32>, paper: Paper) -> (i32, i32) {
    let room_from = |x: i32| paper.width - paper.margin / 2 - x;
    let Some(marker) = marker.filter(|marker| *marker > x - VALUE_GAP) else {
        return (x, room_from(x));
    };
    let behind = marker + VALUE_GAP;
    let room_before = marker - VALUE_GAP - x;
    if wanted <= room_before || room_from(behind) < room_before {
        (x, room_before)
    } else {
        (behind, room_from(behind))
    }
}

fn draw_bar(area: &Area, left: i32, right: i32, y: i32) -> Drawn {
    let top = y - BAR_HEIGHT / 2;
    // A bar that is there at all shows.
    let corners = [(left, top), (right.max(left + 1), top + BAR_HEIGHT)];
    area.draw(&Rectangle::new(corners, BAR.light.filled()))
}

/// A line from the slowest round to the fastest; nothing where they are the same pixel.
fn draw_whisker(area: &Area, min: i32, max: i32, y: i32) -> Drawn {
    if max - min < 2 {
        return Ok(());
    }
    let cap = BAR_HEIGHT / 4;
    area.draw(&line((min, y), (max, y), WHISKER, 1))?;
    for x in [min, max] {
        area.draw(&line((x, y - cap), (x, y + cap), WHISKER, 1))?;
    }
    Ok(())
}

fn draw_published(area: &Area, x: i32, y: i32) -> Drawn {
    let half = BAR_HEIGHT / 2 + 3;
    area.draw(&line((x, y - half), (x, y + half), PUBLISHED, 2))
}

/// The sign of a legend's entry, 24 pixels wide.
fn draw_mark(area: &Area, mark: Mark, x: i32, y: i32) -> Drawn {
    match mark {
        Mark::Median => {
            let corners = [(x, y - 5), (x + 24, y + 5)];
            Ok(area.draw(&Rectangle::new(corners, BAR.light.filled()))?)
        }
        Mark::Range => draw_whisker(area, x + 1, x + 23, y),
        Mark::Published => draw_published(area, x + 12, y),
    }
}

/// The class by which the style sheet finds this picture and no other, inside a page too.
pub(crate) const CLASS: &str = "fullbore-chart";

/// The drawn picture with what plotters has no way to say: its role, its words and its colours.
fn dressed(drawn: &str, chart: &Chart) -> String {
    let Some((root, shapes)) = drawn.split_once(">\n") else {
        return drawn.to_owned();
    };
    format!(
        "{root} class=\"{CLASS}\" role=\"img\">\n<title>{}</title>\n<desc>{}</desc>\n\
         <style>\n{}</style>\n{shapes}",
        escaped(&chart.title),
        escaped(&description(chart)),
        dark_rules(),
    )
}

/// The picture in words: every experiment with its figure.
fn description(chart: &Chart) -> String {
    let mut words = String::from("Measured performance.");
    for section in &chart.sections {
        let _ = write!(words, " {}", section.in_words());
    }
    for line in &chart.caption {
        let _ = write!(words, " {line}.");
    }
    words
}

/// An outcome's figures in words.
fn in_words(outcome: &Outcome) -> String {
    let measured = match &outcome.figure {
        Some(spread) => format!(
            "{} ({} to {})",
            marked_median(outcome),
            figure(spread.min),
            figure(spread.max)
        ),
        None => reason(outcome),
    };
    match outcome.published {
        Some(published) => format!("{measured}, article {}", figure(published)),
        None => measured,
    }
}

/// The rules that trade every light colour for its dark counterpart.
pub(crate) fn dark_rules() -> String {
    let mut rules = String::from("@media screen and (prefers-color-scheme: dark) {\n");
    for Colors { light, dark } in palette() {
        let (light, dark) = (hexadecimal(light), hexadecimal(dark));
        for property in ["fill", "stroke"] {
            let _ = writeln!(
                rules,
                "  .{CLASS} [{property}=\"{light}\"] {{ {property}: {dark}; }}"
            );
        }
    }
    rules + "}\n"
}

/// `text` as the content of an XML element.
fn escaped(text: &str) -> String {
    one_line(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    fn written(run: &Run) -> String {
        let mut text = Vec::new();
        Svg.write(run, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// The names of elements that are opened and never closed, or closed and never opened.
    fn unbalanced(svg: &str) -> Vec<String> {
        let mut open: Vec<&str> = Vec::new();
        let mut wrong = Vec::new();
        for tag in svg.split('<').skip(1) {
            let inside = tag.split('>').next().unwrap();
            let name = |text: &'_ str| text.split([' ', '/']).next().unwrap().to_owned();
            if let Some(closed) = inside.strip_prefix('/') {
                if open.pop() != Some(closed) {
                    wrong.push(closed.to_owned());
                }
            } else if !inside.ends_with('/') {
                let length = name(inside).len();
                open.push(&inside[..length]);
            }
        }
        wrong.extend(open.into_iter().map(str::to_owned));
        wrong
    }

    #[test]
    fn the_picture_is_balanced_whatever_the_names_are() {
        let svg = written(&fixture());
        assert_eq!(unbalanced(&svg), Vec::<String>::new());
        assert!(svg.contains("more &lt;&amp;&gt; "), "{svg}");
        assert!(svg.contains("&lt;Platinum&gt;"));
        assert!(!svg.contains('\t'));
    }

    #[test]
    fn every_experiment_is_in_the_picture() {
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
    fn the_picture_has_words_for_those_who_hear_it() {
        let svg = written(&fixture());
        assert!(svg.starts_with("<svg "));
        let root = svg.lines().next().unwrap();
        assert!(root.contains("role=\"img\"") && root.contains("viewBox=\"0 0 960 "));
        assert!(svg.contains("<title>Pipe throughput: Intel"));
        assert!(svg.contains("write_read 0.93 (0.92 to 0.95), article 3.70"));
    }

    #[test]
    fn every_colour_has_a_dark_counterpart() {
        let mut run = super::super::grid::fixture();
        run.experiments.extend(fixture().experiments);
        let svg = written(&run);
        let (style, shapes) = svg.split_once("</style>").unwrap();
        for property in ["fill", "stroke"] {
            for used in shapes.split(&format!(" {property}=\"#")).skip(1) {
                let color = &used[..6];
                let rule = format!("[{property}=\"#{color}\"]");
                assert!(style.contains(&rule), "{rule}");
            }
        }
        let mut light: Vec<String> = palette().map(|c| hexadecimal(c.light)).collect();
        light.sort();
        light.dedup();
        assert_eq!(light.len(), palette().count());
    }

    #[test]
    fn axes_have_round_ticks_that_reach_the_largest_figure() {
        let cases = [
            (0.0, 0.2, 5),
            (0.93, 0.2, 5),
            (8.0, 1.0, 8),
            (62.5, 10.0, 7),
            (104.0, 20.0, 6),
            (240.0, 50.0, 5),
        ];
        for (largest, step, steps) in cases {
            let ticks = Ticks::up_to(largest);
            assert!(
                (ticks.step - step).abs() < 1e-9,
                "{largest}: {}",
                ticks.step
            );
            assert_eq!(ticks.steps, steps, "{largest}");
            assert!(ticks.end() >= largest);
        }
        assert_eq!(Ticks::up_to(0.93).label(0.6000000000000001), "0.6");
        assert_eq!(Ticks::up_to(240.0).label(50.0), "50");
    }

    #[test]
    fn a_figure_is_clear_of_the_marker() {
        let end = Paper::ALONE.width - Paper::ALONE.margin / 2;
        let clear_of_marker = |x, wanted, marker| clear_of_marker(x, wanted, marker, Paper::ALONE);
        assert_eq!(clear_of_marker(300, 30, None), (300, end - 300));
        assert_eq!(clear_of_marker(300, 30, Some(200)), (300, end - 300));
        assert_eq!(clear_of_marker(300, 30, Some(310)).0, 318);
        assert_eq!(clear_of_marker(300, 30, Some(600)), (300, 292));
        // A long reason stays on the side that shows more of it.
        assert_eq!(clear_of_marker(300, 500, Some(310)).0, 318);
        assert_eq!(clear_of_marker(300, 500, Some(800)), (300, 492));
    }

    #[test]
    fn texts_that_are_too_long_end_in_an_ellipsis() {
        assert_eq!(shortened("short", 12, 100), "short");
        let text = shortened("a text that is far too long for this", 12, 100);
        assert!(text.ends_with('…') && room_for(&text, 12) <= 100, "{text}");
    }

    #[test]
    fn a_run_of_nothing_is_still_a_picture() {
        let mut run = fixture();
        run.experiments.clear();
        assert_eq!(unbalanced(&written(&run)), Vec::<String>::new());
    }
}
