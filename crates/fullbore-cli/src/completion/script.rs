//! The scripts that ask `fullbore complete`, in the languages of the shells.

pub const BASH: &str = include_str!("fullbore.bash");
pub const ZSH: &str = include_str!("fullbore.zsh");
pub const FISH: &str = include_str!("fullbore.fish");
