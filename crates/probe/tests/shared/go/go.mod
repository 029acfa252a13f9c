module ogive.example/clockpage

go 1.19
