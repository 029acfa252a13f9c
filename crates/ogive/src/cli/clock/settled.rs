//! The clock of this machine, calibrated.

use std::time::Duration;

use ogive_probe::{Clock, Mode};

use super::kernel::Directory;

/// After this time, a new clock knows its rate to some hundred parts per billion.
const SETTLE: Duration = Duration::from_millis(600);

/// The machine's clock, calibrated as well as is possible in a moment.
pub(super) fn settled(directory: &Directory) -> Clock {
    let clock = Clock::global();
    directory.apply(clock);
    let start = clock.now();
    // On a busy machine the calibration may need more than one try; a host without a counter does not wait.
    while clock.status().source.is_counter() {
        let waited = Duration::from_nanos(clock.now().saturating_sub(start));
        if waited > 3 * SETTLE || (waited > SETTLE && clock.status().mode == Mode::Counter) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    clock
}
