package process

import "time"

// usage is not known here: there is no /proc.
type usage struct {
	user, system time.Duration
	resident     int64
	own          time.Duration
}

func usageOf(int) usage { return usage{} }
