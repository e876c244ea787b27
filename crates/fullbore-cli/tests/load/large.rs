//! The large forms of the tests in `bytes`: hundreds of gigabytes, and a hundred processes at once. They do not
//! depend on chance, so each has to succeed every time.

use crate::common::under_load;
use crate::every_mover::*;

#[test]
fn under_load_two_hundred_gigabytes_go_by_reference_and_none_is_lost() {
    bytes_go_by_reference_and_none_is_lost(under_load(200 << 30));
}

#[test]
fn under_load_a_gigabyte_behind_producers_that_use_their_pages_again_is_right() {
    what_comes_from_producers_that_use_their_pages_again_is_right(under_load(1 << 30));
}

#[test]
fn under_load_gigabytes_are_copied_and_every_byte_is_right() {
    bytes_are_copied_and_every_one_is_right(under_load(1 << 30));
}

#[test]
fn under_load_ten_gigabytes_through_a_buffer_between_sides_that_pause_are_right() {
    bytes_through_a_buffer_are_right(under_load(10 << 30), "64M");
}

#[test]
fn under_load_a_hundred_at_once_all_get_their_bytes() {
    so_many_at_once_all_get_their_bytes(100);
}
