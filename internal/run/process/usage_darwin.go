package process

// usageOf is not known here: there is no /proc.
func usageOf(int) (u Usage) { return u }

func preferForOOM(int) {}
