package memory

import "time"

// SetPatience sets how long a client may leave what it is sent. It is called before the first request.
func (s *Server) SetPatience(d time.Duration) { s.patience = d }
