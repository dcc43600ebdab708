package process

import "time"

// usageOf is not known here: there is no /proc.
func usageOf(int) (u Usage, own time.Duration) { return u, 0 }
