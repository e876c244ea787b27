//! The options of `cat` and `tee`, without what they do. Fuzzing includes this file.

use super::getopt::{Spec, Value, flag, long};

#[rustfmt::skip]
pub fn cat() -> [Spec<'static>; 12] {
    [
        flag('b', "number-nonblank", "number the lines that are not empty, whatever -n says"),
        flag('n', "number", "number all lines"),
        flag('s', "squeeze-blank", "write one of several empty lines"),
        flag('v', "show-nonprinting", "show control characters as ^X, and bytes above 127 as M-X"),
        flag('E', "show-ends", "show a $ at the end of each line"),
        flag('T', "show-tabs", "show tabs as ^I"),
        flag('A', "show-all", "the same as -vET"),
        flag('e', "", "the same as -vE"),
        flag('t', "", "the same as -vT"),
        flag('u', "", "without effect: nothing is held back"),
        long('h', "help", Value::None, "print this help"),
        long('V', "version", Value::None, "print the version"),
    ]
}

#[rustfmt::skip]
pub fn tee() -> [Spec<'static>; 6] {
    [
        flag('a', "append", "append to the files, do not replace their contents"),
        flag('i', "ignore-interrupts", "ignore SIGINT"),
        flag('p', "", "the same as --output-error=warn-nopipe"),
        long('o', "output-error", Value::Optional("MODE"), "what to do if an output fails; without MODE, warn-nopipe"),
        long('h', "help", Value::None, "print this help"),
        long('V', "version", Value::None, "print the version"),
    ]
}
