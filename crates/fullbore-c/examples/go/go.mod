module example.org/copy

go 1.19
