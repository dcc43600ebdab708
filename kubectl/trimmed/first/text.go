package first

// What strings and strconv do, which this package cannot import.

func hasPrefix(s, prefix string) bool { return len(s) >= len(prefix) && s[:len(prefix)] == prefix }

func contains(s, part string) bool {
	for i := range len(s) {
		if hasPrefix(s[i:], part) {
			return true
		}
	}
	return false
}

func lower(s string) string {
	text := []byte(s)
	for i, c := range text {
		if c >= 'A' && c <= 'Z' {
			text[i] = c + 'a' - 'A'
		}
	}
	return string(text)
}

// split returns the parts of a text that are separated by a byte. An empty text has one part.
func split(s string, separator byte) (parts []string) {
	begin := 0
	for i := range len(s) {
		if s[i] == separator {
			parts, begin = append(parts, s[begin:i]), i+1
		}
	}
	return append(parts, s[begin:])
}

// decimal is for numbers that are not negative.
func decimal(n int64) string {
	var digits [20]byte
	i := len(digits)
	for {
		i--
		digits[i] = byte('0' + n%10)
		if n /= 10; n == 0 {
			return string(digits[i:])
		}
	}
}
