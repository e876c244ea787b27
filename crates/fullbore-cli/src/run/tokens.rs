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
