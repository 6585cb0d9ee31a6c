package reaper_test

import (
	"os"
	"testing"

	"playground/internal/sandboxtest"
)

func TestMain(m *testing.M) { os.Exit(sandboxtest.Main(m)) }
