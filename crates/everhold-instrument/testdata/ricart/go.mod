module example.org/ricart

go 1.19
