// A package with a function that is declared alone (nanotime) needs a file in assembly.
