package chaos

// acts are what hooks do wrong. No change may be missed by it.
var acts = []fault{
	misbehave("hook-fails", true, "fail", "fail"),
	misbehave("hook-killed", true, "kill", "kill", "kill"),
	misbehave("hook-hangs", false, "hang", "hang"),
}

// misbehave returns a fault that lets hooks do things, one in each of their next runs.
func misbehave(name string, short bool, what ...string) fault {
	return fault{name: name, short: short, strict: true, end: nothing, begin: func(w *world) {
		for _, hook := range []string{"plain", "mirror"} {
			w.act(hook, what...)
		}
	}}
}
