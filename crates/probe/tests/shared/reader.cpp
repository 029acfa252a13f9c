// The header compiles as C++ too, without a warning; og_clock of zeros is the system's clock.
#include "ogive_clock.h"

int main() {
    og_clock clock = {nullptr, 0};
    const uint64_t before = static_cast<uint64_t>(og_system_ns(CLOCK_MONOTONIC));
    const uint64_t now = og_clock_now(&clock);
    const og_clock_state state = og_clock_status(&clock);
    const bool sound = now >= before && og_clock_ns_between(&clock, 3, 5) == 2 && og_clock_wall(&clock) > 0
        && state.mode == OG_CLOCK_MODE_OS && state.source == OG_CLOCK_OS && og_clock_open(&clock, "/nowhere") != 0;
    return sound ? 0 : 1;
}
