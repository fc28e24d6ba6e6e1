module github.com/everhold/everhold/sdk/go

go 1.19
