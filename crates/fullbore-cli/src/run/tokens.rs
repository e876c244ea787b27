//! Classifies the tokens of a line, and a parsed line as a whole.

use brush_parser::Token;
use brush_parser::ast::{CompoundListItem, Pipeline, Program, SeparatorOperator};

/// Returns how many brackets, loops and other compound commands the tokens open, or seem to open.
pub fn opened(tokens: &[Token]) -> usize {
    let opens = |token: &Token| match token {
        Token::Operator(operator, _) => operator == "(",
        Token::Word(word, _) => {
            matches!(
                word.as_str(),
                "{" | "if" | "while" | "until" | "for" | "case" | "[[" | "!"
            )
        }
    };
    tokens.iter().filter(|token| opens(token)).count()
}

/// Replaces each `|&` by one pipe, and returns the tokens and the indices of these pipes. In POSIX `|&` is
/// two operators, which can never follow each other.
pub fn with_errors_as_pipes(tokens: Vec<Token>) -> (Vec<Token>, Vec<usize>) {
    let mut read: Vec<Token> = Vec::with_capacity(tokens.len());
    let mut with_errors = Vec::new();
    for token in tokens {
        let place = token.location().clone();
        match (read.last_mut(), &token) {
            (Some(Token::Operator(pipe, before)), Token::Operator(and, _))
                if pipe == "|" && and == "&" && before.end.index + 1 == place.end.index =>
            {
                before.end = place.end;
                with_errors.push(read.len() - 1);
            }
            (_, Token::Operator(both, _)) if both == "|&" => {
                with_errors.push(read.len());
                read.push(Token::Operator("|".into(), place));
            }
            _ => read.push(token),
        }
    }
    (read, with_errors)
}

/// Returns whether brush-parser 0.4 would panic on these tokens, or has perhaps cut them where a shell does not.
pub fn are_unclear(tokens: &[Token], posix: bool) -> bool {
    let is_too_large = |pair: &[Token]| {
        matches!(pair, [Token::Word(number, _), Token::Operator(redirection, _)]
            if redirection.starts_with(['<', '>'])
                && number.bytes().all(|byte| byte.is_ascii_digit())
                && number.parse::<i32>().is_err())
    };
    tokens.windows(2).any(is_too_large)
        || tokens.iter().any(|token| {
            has_quotes_in_quotes(token.to_str()) || has_quote_after_dollar(token.to_str(), posix)
        })
}

/// Returns whether a word has perhaps a quote within `${…}` within double quotes. To a shell it is a quote in
/// `"${a#'b'}"` and a character in `"${a:-it's}"`, and brush-parser reads it as a quote.
fn has_quotes_in_quotes(word: &str) -> bool {
    let Some((_, rest)) = word.split_once('"') else {
        return false;
    };
    let mut depth = 0_usize;
    rest.char_indices().any(|(at, character)| match character {
        '$' if rest[at..].starts_with("${") => {
            depth += 1;
            false
        }
        '}' => {
            depth = depth.saturating_sub(1);
            false
        }
        // What is nested deeper may have a `}` of its own.
        '\'' | '"' | '\\' | '`' | '(' => depth > 0,
        _ => false,
    })
}

/// Returns whether a word has perhaps a `\'` in `$'…'`. It ends the quotes in a shell that does not know `$'…'`,
/// and also after `\$`, which brush-parser reads like `$`.
fn has_quote_after_dollar(word: &str, posix: bool) -> bool {
    let opening = if posix { "$'" } else { r"\$'" };
    word.split_once(opening)
        .is_some_and(|(_, rest)| rest.contains(r"\'"))
}

pub fn is_pipe(token: &Token) -> bool {
    matches!(token, Token::Operator(operator, _) if operator == "|")
}

/// Returns whether a program is a pipeline in the background, and nothing else.
pub fn is_in_background(program: &Program) -> bool {
    match program.complete_commands.as_slice() {
        [list] => matches!(list.0.as_slice(), [CompoundListItem(list, SeparatorOperator::Async)]
            if list.additional.is_empty() && list.first.seq.len() > 1),
        _ => false,
    }
}

/// Returns the pipeline that a program consists of, if it consists of nothing else.
pub fn only_pipeline(program: &Program) -> Option<&Pipeline> {
    let [list] = program.complete_commands.as_slice() else {
        return None;
    };
    let [CompoundListItem(and_or, SeparatorOperator::Sequence)] = list.0.as_slice() else {
        return None;
    };
    and_or.additional.is_empty().then_some(&and_or.first)
}
