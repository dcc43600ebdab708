// Command mysql stands in for the command line client of MySQL and MariaDB, for tests and for trying things out on
// machines without it. It carries out the statements after -e and prints what they return, tab separated.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

const usage = `Usage: mysql [-h HOST] [-P PORT] [-u USER] [--connect-timeout SECONDS] [-N] [-B] -e STATEMENTS

The password is in the variable MYSQL_PWD. Statements are separated by semicolons.

`

func main() {
	_ = mysql.SetLogger(log.New(io.Discard, "", 0)) // errors are printed once, here
	flags := flag.NewFlagSet("mysql", flag.ExitOnError)
	flags.Usage = func() {
		fmt.Fprint(os.Stderr, usage)
		flags.PrintDefaults()
	}
	var host, port, user, statements string
	var noNames bool
	for _, f := range []struct {
		to                         *string
		short, long, preset, usage string
	}{
		{&host, "h", "host", "localhost", "the server"},
		{&port, "P", "port", "3306", "its port"},
		{&user, "u", "user", os.Getenv("USER"), "the user"},
		{&statements, "e", "execute", "", "what to do"},
	} {
		flags.StringVar(f.to, f.short, f.preset, f.usage)
		flags.StringVar(f.to, f.long, f.preset, f.usage)
	}
	timeout := flags.Uint("connect-timeout", 0, "seconds to wait for the server, 0 for ever")
	flags.BoolVar(&noNames, "N", false, "print no column names")
	flags.BoolVar(&noNames, "skip-column-names", false, "print no column names")
	flags.Bool("B", true, "print values tab separated; there is nothing else here")
	flags.Bool("batch", true, "print values tab separated; there is nothing else here")
	_ = flags.Parse(os.Args[1:])
	if statements == "" || flags.NArg() > 0 {
		flags.Usage()
		os.Exit(2)
	}

	config := mysql.NewConfig()
	config.Net, config.Addr = "tcp", net.JoinHostPort(host, port)
	config.User, config.Passwd = user, os.Getenv("MYSQL_PWD")
	config.Timeout = time.Duration(*timeout) * time.Second
	if err := execute(config, statements, noNames); err != nil {
		fmt.Fprintln(os.Stderr, message(err, config.Addr))
		os.Exit(1)
	}
}

// message words an error as the real client does.
func message(err error, server string) string {
	var refused *mysql.MySQLError
	if errors.As(err, &refused) {
		return fmt.Sprintf("ERROR %d (%s): %s", refused.Number, refused.SQLState, refused.Message)
	}
	var line *net.OpError
	if errors.As(err, &line) && line.Op == "dial" {
		return fmt.Sprintf("ERROR 2003 (HY000): Can't connect to MySQL server on '%s' (%v)", server, line.Err)
	}
	return fmt.Sprintf("ERROR 2013 (HY000): Lost connection to MySQL server: %v", err)
}

func execute(config *mysql.Config, statements string, noNames bool) error {
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	conn, err := db.Conn(context.Background())
	if err != nil {
		return err
	}
	defer conn.Close()
	for statement := range strings.SplitSeq(statements, ";") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if err := print(conn, statement, noNames); err != nil {
			return err
		}
	}
	return nil
}

func print(conn *sql.Conn, statement string, noNames bool) error {
	rows, err := conn.QueryContext(context.Background(), statement)
	if err != nil {
		return err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	if len(names) > 0 && !noNames {
		fmt.Println(strings.Join(names, "\t"))
	}
	values := make([]sql.NullString, len(names))
	into := make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		cells := make([]string, len(names))
		for i, v := range values {
			cells[i] = "NULL"
			if v.Valid {
				cells[i] = v.String
			}
		}
		fmt.Println(strings.Join(cells, "\t"))
	}
	return rows.Err()
}
