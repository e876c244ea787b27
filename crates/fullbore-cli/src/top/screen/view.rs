//! Draws the live table. If there are few columns, the least important contents are left out first.

use clap::builder::styling::{AnsiColor, Style};

use super::state::{KEYS, Mode, State};
use crate::terminal::line::leave_out;
use crate::top::cells;
use crate::top::columns::{COLUMNS, Column, coloured, shown_in};
use fullbore_host::text::{columns as columns_of, counted, one_line, wrapped};

const BOLD: Style = Style::new().bold();

fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Returns the lines of the whole screen, of this many columns and rows. `first` is the first row of the table that
/// was shown last, and becomes that of this one.
pub fn lines(state: &State, (width, height): (usize, usize), first: &mut usize) -> Vec<String> {
    let mut below = details(state, width);
    below.truncate(height / 2);
    let rows = height.saturating_sub(2 + below.len()).max(1);
    let mut lines = vec![headline(state, width)];
    if state.mode == Mode::Help {
        lines.extend(help(width));
        lines.resize(1 + rows + below.len(), String::new());
    } else {
        lines.extend(table(state, (width, rows), first));
        lines.resize(1 + rows, String::new());
        lines.extend(below);
    }
    lines.push(footer(state, width));
    lines.truncate(height);
    lines
}

fn headline(state: &State, width: usize) -> String {
    let overview = &state.overview;
    let mut parts = vec![counted(state.rows.len(), "pipe", "pipes")];
    parts.push(format!("by {}", state.sort.in_words()));
    if state.reverse {
        parts.push("reversed".to_owned());
    }
    if !state.filter.is_empty() || state.mode == Mode::Filter {
        parts.push(format!("with '{}'", state.filter));
    }
    if state.paused {
        parts.push("paused".to_owned());
    }
    let closed = overview.unseen.of_others + overview.unseen.of_this_user;
    if closed > 0 {
        let processes = counted(closed, "process", "processes");
        parts.push(format!("{processes} not inspectable"));
    }
    if overview.left_out.own > 0 {
        parts.push(format!("{} private pipes not shown", overview.left_out.own));
    }
    let name = shown_in("fullbore top", width);
    let room = width.saturating_sub(columns_of(&name));
    let rest = shown_in(&format!("  {}", parts.join(", ")), room);
    styled(BOLD, &name) + &rest
}

fn footer(state: &State, width: usize) -> String {
    match &state.mode {
        Mode::Filter => {
            let line = format!("/{}_  Enter keeps it, Esc drops it", state.filter);
            shown_in(&line, width)
        }
        Mode::Question { .. } => {
            let question = shown_in("enlarge it anyway? y: yes; any other key: no", width);
            styled(coloured(AnsiColor::Yellow).bold(), &question)
        }
        _ => shown_in(&keys(width), width),
    }
}

/// Returns what the keys do, as far as there is room for it.
fn keys(width: usize) -> String {
    /// Each text has a weight, and the least is left out first; `?` shows what was left out.
    const ALL: [(u8, &str); 7] = [
        (7, "? help"),
        (4, "/ filter"),
        (5, "s sort"),
        (1, "r reverse"),
        (3, "+ grow"),
        (2, "p pause"),
        (6, "q leave"),
    ];
    let mut shown = ALL.map(|(weight, text)| (weight, text.to_owned())).to_vec();
    leave_out(&mut shown, 2, width);
    let words: Vec<String> = shown.into_iter().map(|(_, text)| text).collect();
    words.join("  ")
}

/// Returns the columns that there is room for, and the width of each.
fn columns(width: usize) -> Vec<(&'static Column, usize)> {
    let mut shown: Vec<&Column> = COLUMNS.iter().collect();
    let needs = |shown: &[&Column]| {
        let needed: usize = shown.iter().map(|one| one.least + 1).sum();
        needed.saturating_sub(1)
    };
    while shown.len() > 1 && needs(&shown) > width {
        let least = shown.iter().map(|one| one.weight).min();
        shown.retain(|one| Some(one.weight) != least);
    }
    let mut room = width.saturating_sub(needs(&shown));
    let mut widths: Vec<usize> = shown.iter().map(|one| one.least).collect();
    // The rest is distributed in equal parts, as long as there are columns that can use it.
    let most: usize = shown.iter().map(|one| one.most - one.least).sum();
    room = room.min(most);
    while room > 0 {
        for (one, width) in shown.iter().zip(&mut widths) {
            if room > 0 && *width < one.most {
                *width += 1;
                room -= 1;
            }
        }
    }
    shown.into_iter().zip(widths).collect()
}

/// Returns the lines of the table, its header included.
fn table(state: &State, (width, height): (usize, usize), first: &mut usize) -> Vec<String> {
    let columns = columns(width);
    let header = |(column, width): &(&Column, usize)| fitted(column.name, column, *width);
    let header: Vec<String> = columns.iter().map(header).collect();
    let mut lines = vec![styled(BOLD, &shown_in(&header.join(" "), width))];
    let rows = height.saturating_sub(1).max(1);
    *first = (*first)
        .min(state.chosen)
        .max((state.chosen + 1).saturating_sub(rows));
    for (place, &at) in state.rows.iter().enumerate().skip(*first).take(rows) {
        let row = &state.overview.pipes[at];
        let mark = |style: Style| match place == state.chosen {
            true => style.invert(),
            false => style,
        };
        let gap = styled(mark(Style::new()), " ");
        let cells = columns.iter().map(|(column, width)| {
            let text = (column.text)(&state.overview, row, *width);
            styled(mark((column.style)(row)), &fitted(&text, column, *width))
        });
        lines.push(cells.collect::<Vec<_>>().join(&gap));
    }
    lines
}

/// Returns a text that occupies exactly the columns of its cell.
fn fitted(text: &str, column: &Column, width: usize) -> String {
    let text = shown_in(text, width);
    let blanks = " ".repeat(width.saturating_sub(columns_of(&text)));
    match column.right {
        true => blanks + &text,
        false => text + &blanks,
    }
}

/// Returns the lines below the table: the result of the last key, and the details of the chosen pipe.
fn details(state: &State, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |text: &str| {
        let text = one_line(text, width * 6);
        let fitting = wrapped(&text, width.max(20)).into_iter();
        lines.extend(fitting.map(|line| shown_in(&line, width)));
    };
    for line in &state.message {
        add(line);
    }
    if let Some(row) = state.row() {
        let chain = row.chain.map(|chain| &state.overview.chains[chain]);
        if let Some(verdict) = chain.and_then(|chain| chain.verdict.as_ref()) {
            add(&verdict.to_string());
            if let Some(next) = &verdict.next {
                add(&format!("next: {next}"));
            }
        }
        if let Some(progress) = chain.and_then(cells::progress) {
            add(&progress);
        }
        for (side, all) in [("writer", &row.writers), ("reader", &row.readers)] {
            match all.as_slice() {
                [] => add(&format!("{side}: unknown")),
                [one, ..] => add(&format!("{side}: {} {}", one.id.pid, one.command)),
            }
        }
        if let Some(why) = &row.closed {
            add(&format!("fill level unknown: {why}"));
        }
    }
    lines
}

fn help(width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for (key, what) in KEYS {
        let text = wrapped(what, width.saturating_sub(18).max(20));
        for (at, part) in text.iter().enumerate() {
            let key = if at == 0 { *key } else { "" };
            lines.push(shown_in(&format!(" {key:<15} {part}"), width));
        }
    }
    lines.push(String::new());
    for text in [
        "A line between two pipes is a pipeline: ┌ its first pipe, └ its last.",
        "full: how full the pipe is now. fill: how full it was in the last samples. rate: '~' \
         means that other files may be included; 'unknown' means that no counter exists. waits: \
        the side that waits, and since when or for what share of the time. slow: the side that \
        the other one waits for, and how it spends its time.",
    ] {
        for line in wrapped(text, width.saturating_sub(2).max(20)) {
            lines.push(shown_in(&format!(" {line}"), width));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{columns, keys};

    #[test]
    fn eighty_columns_are_enough_for_the_first_seven() {
        let at = |width| -> Vec<&str> {
            let shown = columns(width);
            let taken: usize = shown.iter().map(|(_, width)| width + 1).sum();
            assert!(taken <= width + 1 || shown.len() == 1, "{width}");
            shown.iter().map(|(column, _)| column.name).collect()
        };
        let seven = [
            "writer → reader",
            "holds",
            "fill",
            "full",
            "rate",
            "waits",
            "slow",
        ];
        assert_eq!(at(80), seven);
        assert_eq!(at(79).len(), 6);
        for width in 1..300 {
            assert_eq!(at(width)[0], "writer → reader", "{width}");
        }
    }

    #[test]
    fn no_word_of_the_footer_is_cut_however_few_columns_there_are() {
        let all = "? help  / filter  s sort  r reverse  + grow  p pause  q leave";
        assert_eq!(keys(80), all);
        assert_eq!(
            keys(60),
            "? help  / filter  s sort  + grow  p pause  q leave"
        );
        assert_eq!(keys(20), "? help  q leave");
        assert_eq!(keys(3), "? help");
        for width in 6..100 {
            let line = keys(width);
            assert!(line.len() <= width && line.split("  ").all(|key| all.contains(key)));
        }
    }
}
