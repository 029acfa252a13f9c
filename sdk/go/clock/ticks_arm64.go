package clock

func counter() uint64
func counterIsb() uint64

func ordered(Source) uint64 { return counterIsb() }

func isReadable(source Source) bool { return source == CNTVCT }
