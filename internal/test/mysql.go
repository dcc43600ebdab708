package test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// MysqlServer is a server of MySQL, whose databases stay while it is stopped.
type MysqlServer struct {
	t             testing.TB
	dir, password string
	port          string
	cmd           *exec.Cmd
}

// NewMysqlServer starts a server for one test.
func NewMysqlServer(t testing.TB, password string) *MysqlServer {
	t.Helper()
	s := &MysqlServer{t: t, dir: t.TempDir(), password: password, port: "0"}
	s.Start()
	return s
}

// Start starts a stopped server, on the same port.
func (s *MysqlServer) Start() {
	s.t.Helper()
	s.cmd = exec.Command(filepath.Join(Tools(s.t), "mysqld"), "--datadir", s.dir, "--port", s.port)
	s.cmd.Env = append(os.Environ(), "MYSQL_ROOT_PASSWORD="+s.password)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.Stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.t.Fatalf("the server did not start: %v", err)
	}
	s.port = strings.TrimSpace(line[strings.LastIndex(line, ":")+1:])
}

// Stop ends the server, if it still runs.
func (s *MysqlServer) Stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// Env has the address of the server for hooks.
func (s *MysqlServer) Env() []string {
	return []string{"MYSQL_HOST=127.0.0.1", "MYSQL_PORT=" + s.port, "MYSQL_USER=root", "MYSQL_PWD=" + s.password}
}

// Do runs a statement and returns the words of its result.
func (s *MysqlServer) Do(statement string) []string {
	s.t.Helper()
	cmd := exec.Command(filepath.Join(Tools(s.t), "mysql"), "-h", "127.0.0.1", "-P", s.port, "-u", "root", "-N", "-e", statement)
	cmd.Env = append(os.Environ(), "MYSQL_PWD="+s.password)
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%s: %v", statement, err)
	}
	return strings.Fields(string(out))
}

// Databases returns the names of those that are not the server's own.
func (s *MysqlServer) Databases() []string {
	s.t.Helper()
	own := []string{"information_schema", "mysql", "performance_schema", "sys"}
	names := slices.DeleteFunc(s.Do("SHOW DATABASES"), func(name string) bool { return slices.Contains(own, name) })
	slices.Sort(names)
	return names
}
